package cpufeature

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for l := range Level(len(names)) {
		if got, err := Parse(l.String()); err != nil || got != l {
			t.Errorf("%s is read as %s, error %v", l, got, err)
		}
	}
	for _, s := range []string{"", "AVX2", "sse"} {
		if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), "none of portable, avx2, ") {
			t.Errorf("%q: error %v", s, err)
		}
	}
}

// TestHas: what runs where. Each level runs its own code, that of its Vector, and portable code.
func TestHas(t *testing.T) {
	runs := map[Level][]Level{
		Portable:   {Portable},
		AVX2:       {Portable, AVX2},
		AVX2VNNI:   {Portable, AVX2, AVX2VNNI},
		AVX512:     {Portable, AVX2, AVX512},
		AVX512VNNI: {Portable, AVX2, AVX512, AVX512VNNI},
		AVX512VBMI: {Portable, AVX2, AVX512, AVX512VNNI, AVX512VBMI},
	}
	for l := range Level(len(names)) {
		for other := range Level(len(names)) {
			if got, want := l.Has(other), slices.Contains(runs[l], other); got != want {
				t.Errorf("%s has %s: %v", l, other, got)
			}
		}
		if !l.Has(l.Vector()) || l.Vector() > AVX512 {
			t.Errorf("%s: vector level %s", l, l.Vector())
		}
	}
}

func TestActive(t *testing.T) {
	found := Levels()
	if found[0] != Portable || !slices.IsSorted(found) || found[len(found)-1] != Best() {
		t.Errorf("levels %v, best %s", found, Best())
	}
	t.Setenv(Switch, "")
	if l, err := Active(); err != nil || l != Best() {
		t.Errorf("unset: %s, %v", l, err)
	}
	for l := range Level(len(names)) {
		t.Setenv(Switch, l.String())
		got, err := Active()
		if slices.Contains(found, l) {
			if err != nil || got != l {
				t.Errorf("%s: %s, %v", l, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "does not run "+l.String()) {
			t.Errorf("%s: error %v", l, err)
		}
	}
	t.Setenv(Switch, "fast")
	if _, err := Active(); err == nil || !strings.Contains(err.Error(), `MINFER_CPU: "fast" is none of`) {
		t.Errorf("error %v", err)
	}
}
