package diag_test

import (
	"testing"

	"github.com/minfer/minfer/gen/diag"
)

// Specs of another folder are named where they lie, in positions and in messages.
func TestRebase(t *testing.T) {
	for message, want := range map[string]string{
		"already taken at specs/formats/a.yaml:2:1":     "already taken at /tmp/$1/my/formats/a.yaml:2:1",
		"specs/a.yaml already says (specs/b.yaml:1:1)":  "/tmp/$1/my/a.yaml already says (/tmp/$1/my/b.yaml:1:1)",
		"no spec names nospecs/a, x/specs/a or a specs": "no spec names nospecs/a, x/specs/a or a specs",
	} {
		list := diag.List{{Pos: diag.Pos{File: "specs/c.yaml", Line: 3, Col: 4}, Message: message}}
		if have := list.Rebase("specs", "/tmp/$1/my").Error(); have != "/tmp/$1/my/c.yaml:3:4: "+want {
			t.Errorf("%q, want %q", have, want)
		}
		if list[0].Message != message {
			t.Error("the list itself has changed")
		}
	}
}
