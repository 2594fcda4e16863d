// Package specs embeds the specs: the only hand-written facts about formats, kernels, devices and model shapes.
package specs

import "embed"

// FS holds the specs, as formats/q4_K.yaml.
//
//go:embed devices formats kernels layouts models tiles
var FS embed.FS
