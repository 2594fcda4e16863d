// Package shared finds what tests compare with: the root of the repository and the folder of reference data that lies
// beside it.
package shared

import (
	"os"
	"path/filepath"
	"testing"
)

// Root is the root of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("there is no go.mod above the test's folder")
		}
		dir = parent
	}
}

// Path is the path of a file of the reference data. The test is skipped where there is none.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{filepath.Dir(Root(t)), "shared"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the reference data is not there: %v", err)
	}
	return path
}
