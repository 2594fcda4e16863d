//go:build !noasm

package cpufeature

import "golang.org/x/sys/cpu"

// detect asks the CPU; x/sys/cpu also asks whether the system saves the registers.
func detect() []Level {
	x := &cpu.X86
	found := []Level{Portable}
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return found
	}
	found = append(found, AVX2)
	if x.HasAVXVNNI {
		found = append(found, AVX2VNNI)
	}
	if !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL {
		return found
	}
	found = append(found, AVX512)
	if x.HasAVX512VNNI {
		found = append(found, AVX512VNNI)
		if x.HasAVX512VBMI {
			found = append(found, AVX512VBMI)
		}
	}
	return found
}
