// Package ptx holds the kernels in PTX for the oldest GPU that they run on, so that a binary needs the driver alone, which
// compiles PTX for the GPU that it finds. The archive is made by go run ./cmd/minfer-ptx from the sources in
// generated/cuda; its manifest has the digest of each source, and a test fails when one has changed since.
package ptx

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Remake is the command that makes the archive anew.
const Remake = "go run ./cmd/minfer-ptx"

// Target is the architecture that the archive's PTX is for: it runs there and on all later ones.
const Target = 80

// Files of the archive, in this package's folder.
const (
	ArchiveFile  = "kernels.zst"
	ManifestFile = "manifest.tsv"
)

//go:embed kernels.zst
var archive []byte

//go:embed manifest.tsv
var manifest string

// ErrStale: the archive has no PTX for a source, or has it for another text of it.
var ErrStale = errors.New("no PTX for this source")

// Unit is a .cu file and the PTX that it was compiled to.
type Unit struct {
	Name   string // of the file
	Source string // digest of the file and of the headers that it includes
	Text   string // PTX
}

// Archive is a set of units with the compiler that they come from.
type Archive struct {
	Release string // of nvcc: "11.8.89"
	Version Version
	Target  int
	Units   []Unit // by name
}

// Embedded is the archive of this binary. It is unpacked once; an archive that does not fit its manifest is an error.
var Embedded = sync.OnceValues(func() (*Archive, error) { return Read(archive, manifest) })

// Find returns the PTX of the unit of that name, if it was compiled from a source with that digest; else ErrStale, which
// says how to make it anew.
func (a *Archive) Find(name, source string) (string, error) {
	i, ok := slices.BinarySearchFunc(a.Units, name, func(u Unit, name string) int { return strings.Compare(u.Name, name) })
	if !ok {
		return "", fmt.Errorf("%w: %s is not in the archive; %s adds it", ErrStale, name, Remake)
	}
	if a.Units[i].Source != source {
		return "", fmt.Errorf("%w: %s, or a header that it includes, has changed since its PTX was made; %s makes it anew", ErrStale, name, Remake)
	}
	return a.Units[i].Text, nil
}

const headline = "# nvcc %s, PTX %s for sm_%d; made by: %s"

// Write is the archive and its manifest. The same units give the same bytes.
func (a *Archive) Write() (archive []byte, manifest string, err error) {
	var text, lines strings.Builder
	fmt.Fprintf(&lines, headline+"\n", a.Release, a.Version, a.Target, Remake)
	lines.WriteString("unit\tsource\tptx_bytes\tptx\n")
	for i, u := range a.Units {
		if i > 0 && a.Units[i-1].Name >= u.Name {
			panic("BUG: units are not in order of their names: " + u.Name)
		}
		text.WriteString(u.Text)
		fmt.Fprintf(&lines, "%s\t%s\t%d\t%s\n", u.Name, u.Source, len(u.Text), digest(u.Text))
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(windowBytes), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, "", err
	}
	return e.EncodeAll([]byte(text.String()), nil), lines.String(), nil
}

// windowBytes is how far back a text may repeat another: as far as the kernels of one family lie apart.
const windowBytes = 8 << 20

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:40]
}

// Read unpacks an archive and holds it against its manifest.
func Read(archive []byte, manifest string) (*Archive, error) {
	a := &Archive{}
	total := 0
	type row struct {
		bytes int
		sum   string
	}
	var rows []row
	for n, line := range strings.Split(strings.TrimSuffix(manifest, "\n"), "\n") {
		switch {
		case n == 0:
			if err := a.readHead(line); err != nil {
				return nil, fmt.Errorf("%s:1: %w", ManifestFile, err)
			}
			continue
		case n == 1:
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s:%d: %d cells instead of 4", ManifestFile, n+1, len(cells))
		}
		bytes, err := strconv.ParseUint(cells[2], 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", ManifestFile, n+1, err)
		}
		a.Units = append(a.Units, Unit{Name: cells[0], Source: cells[1]})
		rows = append(rows, row{int(bytes), cells[3]})
		total += int(bytes)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBytes))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	data, err := d.DecodeAll(archive, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ArchiveFile, err)
	}
	if len(data) != total {
		return nil, fmt.Errorf("%s holds %d bytes of PTX, its manifest says %d: %s makes both anew", ArchiveFile, len(data), total, Remake)
	}
	text, at := string(data), 0
	for i, r := range rows {
		a.Units[i].Text = text[at : at+r.bytes]
		at += r.bytes
		if have := digest(a.Units[i].Text); have != r.sum {
			return nil, fmt.Errorf("%s: the PTX of %s is not that of its manifest: %s makes both anew", ArchiveFile, a.Units[i].Name, Remake)
		}
	}
	return a, nil
}

// maxBytes bounds what an archive may unpack to.
const maxBytes = 256 << 20

// readHead reads the manifest's first line, which headline wrote.
func (a *Archive) readHead(line string) error {
	rest, ok := strings.CutPrefix(line, "# nvcc ")
	release, rest, ok2 := strings.Cut(rest, ", PTX ")
	version, rest, ok3 := strings.Cut(rest, " for sm_")
	target, _, ok4 := strings.Cut(rest, ";")
	major, minor, ok5 := strings.Cut(version, ".")
	if !ok || !ok2 || !ok3 || !ok4 || !ok5 {
		return fmt.Errorf("%q is not of the form %q", line, headline)
	}
	a.Release, a.Version, a.Target = release, Version{number(major), number(minor)}, number(target)
	return nil
}
