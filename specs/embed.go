// Package specs embeds the specs: the only hand-written facts about formats, kernels and devices.
package specs

import "embed"

// FS holds the specs, as formats/q4_K.yaml.
//
//go:embed devices formats kernels
var FS embed.FS
