//go:build !amd64 || noasm

package cpufeature

func detect() []Level { return []Level{Portable} }
