package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func write(t *testing.T, text string) func(dir, result string) error {
	t.Helper()
	return func(dir, result string) error { return os.WriteFile(filepath.Join(dir, result), []byte(text), 0o666) }
}

func TestOpenFindsItsFolder(t *testing.T) {
	base := t.TempDir()
	t.Setenv("MINFER_CACHE", base)
	c, err := Open("kind", "")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(base, "kind"); c.dir != want {
		t.Errorf("folder %s, want %s", c.dir, want)
	}
	if c, err = Open("kind", filepath.Join(base, "given")); err != nil || c.dir != filepath.Join(base, "given") {
		t.Errorf("a folder that was given: %v, %v", c, err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("kind", filepath.Join(file, "below")); err == nil {
		t.Error("a folder below a file was opened")
	}
}

func TestFileIsMadeOnce(t *testing.T) {
	c, err := Open("kind", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			path, err := c.File(t.Context(), "name", func(dir, result string) error {
				made.Add(1)
				time.Sleep(10 * time.Millisecond)
				return write(t, "text")(dir, result)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "text" {
				t.Errorf("%s holds %q, %v", path, text, err)
			}
		})
	}
	wait.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("made %d times", n)
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	c, err := Open("kind", dir)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if _, err := c.File(t.Context(), "name", func(dir, result string) error {
		if err := write(t, "half")(dir, result); err != nil {
			return err
		}
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if _, err := os.Stat(filepath.Join(dir, "name")); err == nil {
		t.Error("a failed build left a file")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "build-*")); len(left) > 0 {
		t.Errorf("a failed build left %v", left)
	}
	if _, err := c.File(t.Context(), "name", write(t, "whole")); err != nil {
		t.Errorf("the build after it: %v", err)
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	c, err := Open("kind", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.File(t.Context(), "name", func(dir, result string) error {
		if _, err := c.File(ctx, "name", write(t, "")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for a build that does not end: %v", err)
		}
		return write(t, "")(dir, result)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPruneKeepsWhatIsUsed(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-(UnusedDays + 1) * 24 * time.Hour)
	c, err := Open("kind", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"used", "unused"} {
		path, err := c.File(t.Context(), name, write(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.File(t.Context(), "used", nil); err != nil { // not made anew: nil would be called
		t.Fatal(err)
	}
	if _, err := Open("kind", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "used")); err != nil {
		t.Error("a file used today was removed")
	}
	if _, err := os.Stat(filepath.Join(dir, "unused")); err == nil {
		t.Error("a file unused for long is still there")
	}
}

func TestDrop(t *testing.T) {
	c, err := Open("kind", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.File(t.Context(), "name", write(t, "damaged"))
	if err != nil {
		t.Fatal(err)
	}
	c.Drop(path)
	if path, err = c.File(t.Context(), "name", write(t, "whole")); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "whole" {
		t.Errorf("the file holds %q", text)
	}
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(outside, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.Drop(outside)
	if _, err := os.Stat(outside); err != nil {
		t.Error("a file outside was removed")
	}
}

func TestKeyAndWrite(t *testing.T) {
	if Key("ab", "c") == Key("a", "bc") || Key("a") == Key("a", "") {
		t.Error("two lists of parts share a key")
	}
	dir := t.TempDir()
	if err := Write(dir, map[string]string{"a.cu": "1", "sub/b.cuh": "2"}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "sub", "b.cuh")); err != nil || string(text) != "2" {
		t.Errorf("sub/b.cuh holds %q, %v", text, err)
	}
	if err := Write(dir, map[string]string{"../outside": ""}); err == nil {
		t.Error("a name that leads outside was written")
	}
}
