package nvcc

import (
	"fmt"
	"io/fs"
	"path"
)

// Sources are the .cu files of a folder, by name; each may include the folder's .cuh files.
func Sources(folder fs.FS) ([]Source, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, err
	}
	headers := map[string]string{}
	var sources []Source
	for _, e := range entries {
		ext := path.Ext(e.Name())
		if ext != ".cu" && ext != ".cuh" {
			continue
		}
		text, err := fs.ReadFile(folder, e.Name())
		if err != nil {
			return nil, err
		}
		if ext == ".cuh" {
			headers[e.Name()] = string(text)
			continue
		}
		sources = append(sources, Source{Name: e.Name(), Text: string(text), Headers: headers})
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("no .cu file is there")
	}
	return sources, nil
}
