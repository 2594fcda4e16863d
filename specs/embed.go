// Package specs embeds the specs: the only hand-written facts about formats.
package specs

import "embed"

// FS holds the specs, as formats/q4_K.yaml.
//
//go:embed formats
var FS embed.FS
