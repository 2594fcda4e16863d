//go:build !amd64

package cpufeature

func detect() []Level { return []Level{Portable} }
