package mutate

import (
	"strings"
	"testing"

	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/specs"
)

func TestEveryMutantIsKilled(t *testing.T) {
	c, _ := shared.Catalog(t, specs.FS)
	mutants, wrong := All(c)
	for _, w := range wrong {
		t.Error(w)
	}
	alive := 0
	for _, m := range mutants {
		if m.Killer == "" {
			t.Errorf("alive: %s: %s", m.Kernel, m.Change)
			alive++
		}
	}
	t.Logf("%d mutants, %d alive", len(mutants), alive)
}

// The fault that began it all, named to the unit.
func TestHistoricalGate(t *testing.T) {
	c, _ := shared.Catalog(t, specs.FS)
	mutants := Historical(c)
	if len(mutants) != 1 || !strings.Contains(mutants[0].Killer, "units 512..591 of 592 are processed by no thread (13.51 %)") {
		t.Errorf("%+v", mutants)
	}
}
