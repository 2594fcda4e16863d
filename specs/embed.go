// Package specs embeds the specs: the only hand-written facts about formats, kernels, devices and model shapes.
package specs

import "embed"

// FS holds the specs, as formats/q4_K.yaml: every folder, whose names all end in s. Folder routes is there once something was measured.
//
//go:embed *s
var FS embed.FS
