package ptx

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Module is what the text of a PTX module says of itself.
type Module struct {
	Version Version // of the PTX language
	Target  int     // architecture that it was compiled for: 80
	Entries []Entry
	Globals map[string][]byte // content of the initialized arrays of bytes that it exports
}

// Entry is a kernel of a module.
type Entry struct {
	Name       string
	Params     []string // type of each parameter: "u64", "u32", "f32"
	MaxThreads int      // of a block, as __launch_bounds__ has them; 0: it does not say
	MinBlocks  int      // of a multiprocessor, as __launch_bounds__ has them; 0: it does not say
}

// Version is a version of the PTX language.
type Version struct{ Major, Minor int }

// String is the version as PTX writes it: "7.8".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// releases are the first CUDA releases that know a version of PTX, where their numbers do not follow from each other.
// "PTX ISA", Release Notes: PTX 7.x came with CUDA 11.x, 8.0 to 8.5 with 12.0 to 12.5, 9.x with 13.x.
var releases = map[Version]Release{
	{8, 6}: {12, 7}, {8, 7}: {12, 8}, {8, 8}: {12, 9},
}

// Release is a release of CUDA, of a driver or a toolkit.
type Release struct{ Major, Minor int }

// String is the release as CUDA writes it: "11.8".
func (r Release) String() string { return fmt.Sprintf("%d.%d", r.Major, r.Minor) }

// Less reports whether r is older than s.
func (r Release) Less(s Release) bool {
	return r.Major < s.Major || r.Major == s.Major && r.Minor < s.Minor
}

// ReleaseOf splits the number that the driver gives for its release: 11080 is 11.8.
func ReleaseOf(number int) Release { return Release{number / 1000, number % 1000 / 10} }

// Needs is the oldest release of CUDA whose driver compiles PTX of this version.
func (v Version) Needs() Release {
	if r, ok := releases[v]; ok {
		return r
	}
	return Release{v.Major + 4, v.Minor}
}

var (
	versionText = regexp.MustCompile(`(?m)^\.version\s+(\d+)\.(\d+)`)
	targetText  = regexp.MustCompile(`(?m)^\.target\s+sm_(\d+)`)
	entryText   = regexp.MustCompile(`(?s)\.entry\s+([A-Za-z_$][\w$]*)\s*\((.*?)\)(.*?)\{`)
	paramText   = regexp.MustCompile(`\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)`)
	threadsText = regexp.MustCompile(`\.maxntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?`)
	blocksText  = regexp.MustCompile(`\.minnctapersm\s+(\d+)`)
	globalText  = regexp.MustCompile(`(?m)^(?:\.visible\s+)?\.(?:global|const)\s+(?:\.align\s+\d+\s+)?\.b8\s+([A-Za-z_$][\w$]*)\[(\d+)\]\s*=\s*\{([^}]*)\}`)
)

// Parse reads the declarations of a PTX module. A text without version, target or end is an error.
func Parse(text string) (*Module, error) {
	m := &Module{Globals: map[string][]byte{}}
	v := versionText.FindStringSubmatch(text)
	if v == nil {
		return nil, errors.New("no .version: this is no PTX")
	}
	t := targetText.FindStringSubmatch(text)
	if t == nil {
		return nil, errors.New("no .target sm_..: this is no PTX, or it was cut")
	}
	m.Version = Version{number(v[1]), number(v[2])}
	m.Target = number(t[1])
	for _, e := range entryText.FindAllStringSubmatch(text, -1) {
		entry := Entry{Name: e[1]}
		for _, p := range paramText.FindAllStringSubmatch(e[2], -1) {
			entry.Params = append(entry.Params, p[1])
		}
		if n := threadsText.FindStringSubmatch(e[3]); n != nil {
			entry.MaxThreads = 1
			for _, axis := range n[1:] {
				if axis != "" {
					entry.MaxThreads *= number(axis)
				}
			}
		}
		if n := blocksText.FindStringSubmatch(e[3]); n != nil {
			entry.MinBlocks = number(n[1])
		}
		m.Entries = append(m.Entries, entry)
	}
	for _, g := range globalText.FindAllStringSubmatch(text, -1) {
		data := make([]byte, 0, min(number(g[2]), len(g[3])))
		for value := range strings.SplitSeq(g[3], ",") {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 8)
			if err != nil {
				return nil, fmt.Errorf("content of %s: %w", g[1], err)
			}
			data = append(data, byte(n))
		}
		if want := number(g[2]); len(data) < want && want <= 1<<20 {
			data = append(data, make([]byte, want-len(data))...) // trailing zeros are left out
		}
		m.Globals[g[1]] = data
	}
	if open, closed := strings.Count(text, "{"), strings.Count(text, "}"); open != closed {
		return nil, fmt.Errorf("%d opening braces and %d closing ones: it was cut", open, closed)
	}
	return m, nil
}

// Entry is the kernel of that name, or nil.
func (m *Module) Entry(name string) *Entry {
	for i := range m.Entries {
		if m.Entries[i].Name == name {
			return &m.Entries[i]
		}
	}
	return nil
}

// number reads digits; what does not fit an int is -1.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}
