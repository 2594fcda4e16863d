// Package output brings the folder of generated code in line with what the generator makes: it tells what differs and
// why, writes what changed, each file whole or not at all, and removes what is no longer generated. It never touches
// anything outside the folder.
package output

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/emit"
)

// ManifestPath is the file that holds the hash of every other generated file, in the form of sha256sum.
const ManifestPath = "manifest.sha256"

// tempPrefix begins the names of files that are being written. The go tool ignores names that begin with a dot.
const tempPrefix = ".minfer-gen-"

// Manifest lists the hashes of files.
func Manifest(files []emit.File) emit.File {
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(f.Data), f.Path)
	}
	return emit.File{Path: ManifestPath, Data: b.Bytes()}
}

// Reason is why a file on disk is not what the generator makes.
type Reason string

// The reasons.
const (
	Missing  Reason = "missing"      // not on disk
	Stale    Reason = "stale"        // as the generator once wrote it, from other specs or by another version
	Edited   Reason = "edited"       // changed since the generator wrote it
	Orphan   Reason = "orphaned"     // written by the generator once, generated no more
	Foreign  Reason = "foreign"      // not the generator's
	LineEnds Reason = "CRLF endings" // the same but for its line ends
)

// Change is one file that differs.
type Change struct {
	Path   string // relative to the folder
	Reason Reason
	Old    []byte // on disk; nil when missing
	New    []byte // as generated; nil when the file is to go
}

// Diff compares the folder with the files that belong in it, the manifest among them. A folder that is not there is
// empty. The changes are ordered by path.
func Diff(dir string, files []emit.File) ([]Change, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		var changes []Change
		for _, f := range files {
			changes = append(changes, Change{Path: f.Path, Reason: Missing, New: f.Data})
		}
		return changes, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the generated files: %w", err)
	}
	defer root.Close()

	signed, err := readManifest(root)
	if err != nil {
		return nil, err
	}
	onDisk, err := list(root)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, f := range files {
		if !onDisk[f.Path] {
			changes = append(changes, Change{Path: f.Path, Reason: Missing, New: f.Data})
			continue
		}
		delete(onDisk, f.Path)
		old, err := root.ReadFile(f.Path)
		if err != nil {
			return nil, fmt.Errorf("reading generated files: %w", err)
		}
		if bytes.Equal(old, f.Data) {
			continue
		}
		c := Change{Path: f.Path, Reason: Edited, Old: old, New: f.Data}
		switch hash, known := signed[f.Path]; {
		case bytes.Equal(lf(old), f.Data):
			c.Reason = LineEnds
		case f.Path == ManifestPath, known && hash == fmt.Sprintf("%x", sha256.Sum256(old)), known && hash == fmt.Sprintf("%x", sha256.Sum256(lf(old))):
			c.Reason = Stale
		case len(signed) == 0:
			c.Reason = Stale // nothing says what the generator once wrote
		}
		changes = append(changes, c)
	}
	for p := range onDisk {
		c := Change{Path: p, Reason: Foreign}
		if _, known := signed[p]; known || strings.HasPrefix(path.Base(p), tempPrefix) {
			c.Reason = Orphan
		}
		if c.Old, err = root.ReadFile(p); err != nil {
			c.Old = nil // a link or a special file: its name says enough
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

// Write makes the folder hold exactly the given files and returns what it changed. A file is replaced by renaming a
// complete one over it, so that an interruption leaves the old or the new. Files that are not the generator's are
// removed only from a folder that has a manifest, that is, one that the generator has filled before.
func Write(dir string, files []emit.File) ([]Change, error) {
	changes, err := Diff(dir, files)
	if err != nil {
		return nil, err
	}
	if foreign := slices.IndexFunc(changes, func(c Change) bool { return c.Reason == Foreign }); foreign >= 0 {
		if _, err := os.Stat(path.Join(dir, ManifestPath)); err != nil {
			return nil, fmt.Errorf("%s holds %s, which minfer-gen did not write, and has no %s; name a folder that is empty or was generated, or delete this one",
				dir, changes[foreign].Path, ManifestPath)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("making the folder of generated files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of generated files: %w", err)
	}
	defer root.Close()
	// The manifest goes last: until then the old one tells what is the generator's.
	last := func(c Change) int {
		if c.Path == ManifestPath {
			return 1
		}
		return 0
	}
	ordered := slices.Clone(changes)
	slices.SortStableFunc(ordered, func(a, b Change) int { return cmp.Compare(last(a), last(b)) })
	for _, c := range ordered {
		if c.New == nil {
			err = remove(root, c.Path)
		} else {
			err = replace(root, c.Path, c.New)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w (is the folder read-only?)", path.Join(dir, c.Path), err)
		}
	}
	return changes, nil
}

// replace writes a file whole.
func replace(root *os.Root, name string, data []byte) error {
	dir := path.Dir(name)
	if err := root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	temp := path.Join(dir, fmt.Sprintf("%s%d-%s", tempPrefix, os.Getpid(), path.Base(name)))
	if err := root.WriteFile(temp, data, 0o666); err != nil {
		_ = root.Remove(temp)
		return err
	}
	if err := root.Rename(temp, name); err != nil {
		_ = root.Remove(temp)
		return err
	}
	return nil
}

// remove deletes a file and the folders that it leaves empty.
func remove(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil {
			break // not empty
		}
	}
	return nil
}

// list names every file below the root, links included, folders not.
func list(root *os.Root) (map[string]bool, error) {
	files := map[string]bool{}
	err := fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			files[p] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing generated files: %w", err)
	}
	return files, nil
}

// readManifest reads the hashes by path; none when there is no manifest. Lines that are no hash and path are left out.
func readManifest(root *os.Root) (map[string]string, error) {
	data, err := root.ReadFile(ManifestPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading generated files: %w", err)
	}
	signed := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if hash, name, ok := strings.Cut(lines.Text(), "  "); ok {
			signed[name] = hash
		}
	}
	return signed, nil
}

func lf(data []byte) []byte { return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) }
