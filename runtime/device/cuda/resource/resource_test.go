package resource

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/gate"
)

func limits(t *testing.T, arch int) Limits {
	t.Helper()
	l := Limits{Arch: arch, Warp: 32, Threads: 2048, Blocks: 32, Registers: 65536}
	switch arch {
	case 80:
		l.SharedBytes = 164 << 10
	case 90:
		l.SharedBytes = 228 << 10
	default:
		t.Fatalf("no limits of sm_%d", arch)
	}
	return l
}

// TestOccupancyOfToolkit holds the calculator against the one that comes with CUDA (testdata/occupancy.cc).
func TestOccupancyOfToolkit(t *testing.T) {
	text, err := os.ReadFile("testdata/occupancy.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		var arch, registers, threads, shared int
		var want Occupancy
		if n, _ := fmt.Sscan(line, &arch, &registers, &threads, &shared, &want.Blocks, &want.ByRegisters, &want.ByThreads, &want.ByShared, &want.ByMultiprocessor); n != 9 {
			continue // a heading
		}
		rows++
		if have := limits(t, arch).Occupancy(threads, registers, shared); have != want {
			t.Errorf("sm_%d, %d registers, %d threads, %d bytes shared: %v, the toolkit says %v", arch, registers, threads, shared, have, want)
		}
	}
	if rows < 1000 {
		t.Errorf("only %d rows were compared", rows)
	}
}

// TestOccupancyByHand are cases worked out on paper, on a GPU of 1536 threads too. 40 registers of 5 warps: a partition of
// 16384 registers holds 12 warps of 1280, four hold 48, and 48 warps are 9 whole blocks of 5, though 65536/(40*160) is 10.
func TestOccupancyByHand(t *testing.T) {
	sm90, sm121 := limits(t, 90), limits(t, 90)
	sm121.Threads, sm121.Blocks, sm121.SharedBytes = 1536, 24, 100<<10
	for _, c := range []struct {
		limits             Limits
		registers, threads int
		blocks             int
		limit              string
	}{
		{sm90, 48, 256, 5, "registers"},
		{sm121, 48, 256, 5, "registers"},
		{sm90, 40, 256, 6, "registers"},
		{sm121, 40, 256, 6, "registers+threads"},
		{sm90, 40, 160, 9, "registers"},
		{sm121, 40, 160, 9, "registers+threads"},
		{sm90, 32, 256, 8, "registers+threads"},
		{sm90, 128, 1024, 0, "registers"},
	} {
		if o := c.limits.Occupancy(c.threads, c.registers, 0); o.Blocks != c.blocks || o.Limit() != c.limit {
			t.Errorf("%d registers, %d threads: %v, limited by %s; want %d, limited by %s", c.registers, c.threads, o, o.Limit(), c.blocks, c.limit)
		}
	}
}

const ptxasReport = `ptxas info    : 216 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 55 registers, 32 bytes smem, 576 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
`

func TestParseReport(t *testing.T) {
	rows, err := ParseReport(ptxasReport)
	if err != nil {
		t.Fatal(err)
	}
	want := []Row{
		{Kernel: "first", Arch: 90, Registers: 55, SpillStores: 4, SpillLoads: 12, StackBytes: 8, SharedBytes: 32},
		{Kernel: "second", Arch: 90, Registers: 32},
	}
	if len(rows) != len(want) || rows[0] != want[0] || rows[1] != want[1] {
		t.Errorf("read %v, want %v", rows, want)
	}
	if _, err := ParseReport(strings.Replace(ptxasReport, "Used 32", "Uses 32", 1)); err == nil || !strings.Contains(err.Error(), "second") {
		t.Errorf("a report without registers: %v", err)
	}
}

func table(rows ...Row) *Table {
	t := &Table{Release: "11.8.89", Flags: "-O3 -fmad=false", Rows: rows}
	t.Sort()
	return t
}

func TestTableRoundTrip(t *testing.T) {
	want := table(Row{"b", 90, 256, 55, 4, 12, 8, 32, 4, "registers"}, Row{"a", 90, 64, 32, 0, 0, 0, 0, 32, "registers+threads"}, Row{"a", 80, 64, 32, 0, 0, 0, 0, 32, "registers+threads"})
	have, err := Parse(want.String())
	if err != nil {
		t.Fatal(err)
	}
	if have.String() != want.String() || have.Release != want.Release || have.Flags != want.Flags {
		t.Errorf("read back\n%s\nwrote\n%s", have, want)
	}
	if r, ok := have.Find("a", 90); !ok || r.Threads != 64 {
		t.Errorf("Find of a row that is there: %v, %v", r, ok)
	}
	if _, ok := have.Find("a", 86); ok {
		t.Error("Find found a row that is not there")
	}
	for what, text := range map[string]string{
		"no compiler":    strings.TrimPrefix(want.String(), "# nvcc"),
		"other columns":  strings.Replace(want.String(), "registers\t", "registers ", 1),
		"a cell less":    strings.Replace(want.String(), "\t64\t", "\t", 1),
		"a word":         strings.Replace(want.String(), "\t64\t", "\tmany\t", 1),
		"a row twice":    want.String() + want.Rows[2].String() + "\n",
		"cut in the row": want.String()[:len(want.String())-20],
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), File+":") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFaultsNameTheKernel(t *testing.T) {
	good := Row{"k", 90, 256, 32, 0, 0, 0, 0, 8, "threads"}
	spilling := good
	spilling.SpillStores, spilling.SpillLoads, spilling.StackBytes = 4, 8, 8
	for _, c := range []struct {
		name      string
		now, then Row
		want      string // "" for no fault
	}{
		{"unchanged", good, good, ""},
		{"known spills", spilling, spilling, ""},
		{"fewer spills", good, spilling, ""},
		{"new kernel that spills", spilling, Row{Kernel: "other", Arch: 90}, "kernel k on sm_90 spills 4 bytes"},
		{"new spills", spilling, good, "kernel k on sm_90 spills 4 bytes and loads 8 back, 0 and 0 are known"},
		{"more loads", func() Row { r := spilling; r.SpillLoads++; return r }(), spilling, "loads 9 back"},
		{"stack", func() Row { r := good; r.StackBytes = 16; return r }(), good, "takes 16 bytes of stack"},
		{"no launch bounds", func() Row { r := good; r.Threads = 0; return r }(), good, "has no launch bounds"},
		{"too many registers", func() Row { r := good; r.Registers = 255; r.Fit(limits(t, 90), 512); return r }(), good, "not one block of 512 threads fits (limited by registers)"},
	} {
		err := table(c.now).Faults(table(c.then))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestDiff(t *testing.T) {
	a, b, c := Row{Kernel: "a", Arch: 80}, Row{Kernel: "b", Arch: 80}, Row{Kernel: "c", Arch: 80}
	changed := b
	changed.Registers = 40
	if d := table(a, b).Diff(table(a, b)); d != "" {
		t.Errorf("alike tables differ:\n%s", d)
	}
	want := fmt.Sprintf("-%s\n-%s\n+%s\n+%s\n", a, b, changed, c)
	if d := table(changed, c).Diff(table(a, b)); d != want {
		t.Errorf("diff\n%swant\n%s", d, want)
	}
}

// TestCommitted holds the committed table against the gates: every kernel has its row on every architecture, at least one
// block of the largest size that a gate launches fits, and none is launched with more threads than it was compiled for. CI holds the table to
// the gates; elsewhere a kernel may be worked on without nvcc.
func TestCommitted(t *testing.T) {
	table, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	var stale []string
	for _, e := range gate.All {
		for _, s := range e.Steps {
			v := s.Variant
			known[v.Symbol] = true
			for _, arch := range []int{80, 90} {
				r, ok := table.Find(v.Symbol, arch)
				if !ok {
					if arch >= v.Arch && v.Arch < 90 { // what needs sm_90 may need a later compiler than the table's
						stale = append(stale, fmt.Sprintf("%s has no row for kernel %s on sm_%d; %s adds it", File, v.Symbol, arch, Remake))
					}
					continue
				}
				if r.Threads < int(v.Threads) {
					stale = append(stale, fmt.Sprintf("kernel %s was compiled for %d threads on sm_%d, its gate launches %d", v.Symbol, r.Threads, arch, v.Threads))
				}
				if fit := limits(t, arch).Occupancy(r.Threads, r.Registers, r.SharedBytes); fit.Blocks != r.BlocksPerSM || fit.Limit() != r.LimitedBy || fit.Blocks < 1 {
					t.Errorf("kernel %s on sm_%d: %v, the table has %d blocks, limited by %s", v.Symbol, arch, fit, r.BlocksPerSM, r.LimitedBy)
				}
			}
		}
	}
	for _, r := range table.Rows {
		if !known[r.Kernel] {
			stale = append(stale, fmt.Sprintf("%s has a row for kernel %s, which no gate names; %s removes it", File, r.Kernel, Remake))
		}
	}
	switch {
	case len(stale) > 0 && os.Getenv("CI") != "":
		t.Error(strings.Join(stale, "\n"))
	case len(stale) > 0:
		t.Skipf("%d kernels are newer than the table (%s), which takes nvcc 11.8", len(stale), stale[0])
	}
}
