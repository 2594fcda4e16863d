// Package cpufeature names the sets of vector instructions that kernels are made for, finds those that this CPU and its
// system have, and reads the switch that asks for one.
package cpufeature

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Level is a set of instructions. A higher level is a better choice where it is there; the levels of AVX512 do not
// include the dot products of AVX2VNNI.
type Level uint8

// The levels.
const (
	Portable   Level = iota // no assembly: Go as the compiler makes it
	AVX2                    // AVX2, FMA, F16C
	AVX2VNNI                // AVX2 with the 8-bit dot products of AVX-VNNI
	AVX512                  // AVX-512 F, BW, DQ, VL, beside AVX2
	AVX512VNNI              // AVX512 with the 8-bit dot products of AVX512_VNNI
	AVX512VBMI              // AVX512VNNI with the permutations of bytes of AVX512_VBMI
)

var names = [...]string{Portable: "portable", AVX2: "avx2", AVX2VNNI: "avx2vnni", AVX512: "avx512", AVX512VNNI: "avx512vnni", AVX512VBMI: "avx512vbmi"}

// String is the name that Parse reads.
func (l Level) String() string {
	if int(l) >= len(names) {
		return fmt.Sprintf("level %d", uint8(l))
	}
	return names[l]
}

// Vector is the level without what products with weights alone need: Portable, AVX2 or AVX512.
func (l Level) Vector() Level {
	switch l {
	case AVX2VNNI:
		return AVX2
	case AVX512VNNI, AVX512VBMI:
		return AVX512
	}
	return l
}

// Has reports whether code of level other runs where l does.
func (l Level) Has(other Level) bool {
	switch other {
	case Portable:
		return true
	case AVX2:
		return l >= AVX2
	case AVX2VNNI:
		return l == AVX2VNNI
	case AVX512:
		return l >= AVX512
	case AVX512VNNI:
		return l >= AVX512VNNI
	}
	return l == other
}

// Switch is the environment variable that asks for a level.
const Switch = "MINFER_CPU"

// levels are those that this machine runs, ascending.
var levels = detect()

// Levels lists the levels that this machine runs, ascending. The first is Portable.
func Levels() []Level { return slices.Clone(levels) }

// Best is the highest level that this machine runs.
func Best() Level { return levels[len(levels)-1] }

// Active is the level that Switch asks for, or the best one where it is unset. A name that is none, or a level that this
// machine does not run, is refused.
func Active() (Level, error) {
	s := os.Getenv(Switch)
	if s == "" {
		return Best(), nil
	}
	l, err := Parse(s)
	if err != nil {
		return Portable, fmt.Errorf("%s: %w", Switch, err)
	}
	if !slices.Contains(levels, l) {
		return Portable, fmt.Errorf("%s: this CPU does not run %s; it runs %s", Switch, l, join(levels))
	}
	return l, nil
}

// Parse reads the name of a level.
func Parse(s string) (Level, error) {
	if i := slices.Index(names[:], s); i >= 0 {
		return Level(i), nil
	}
	return Portable, fmt.Errorf("%q is none of %s", s, strings.Join(names[:], ", "))
}

func join(ls []Level) string {
	s := make([]string, len(ls))
	for i, l := range ls {
		s[i] = l.String()
	}
	return strings.Join(s, ", ")
}
