// Package resource says what each kernel takes of a GPU: registers, stack, spills and static shared memory, as the
// assembler reports them, and how many blocks fit on a multiprocessor for it. The committed table is made by
// go run ./cmd/minfer-ptx; go run ./cmd/minfer-ptx --check holds the kernels against it.
package resource

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// File is the table's name in this package's folder.
const File = "resources.tsv"

//go:embed resources.tsv
var committed string

// Committed is the table of this binary.
var Committed = sync.OnceValues(func() (*Table, error) { return Parse(committed) })

// Row is what one kernel takes on one architecture.
type Row struct {
	Kernel      string
	Arch        int    // 80
	Threads     int    // of a block at most, by its launch bounds
	Registers   int    // of a thread
	SpillStores int    // bytes of a thread
	SpillLoads  int    // bytes of a thread
	StackBytes  int    // of a thread
	SharedBytes int    // static, of a block; dynamic shared memory comes on top
	BlocksPerSM int    // with static shared memory alone
	LimitedBy   string // the resource that keeps it from more: "registers"
}

// Table is the rows of all kernels, by kernel and architecture, and the compiler that they were read from.
type Table struct {
	Release string // of nvcc: "11.8.89"
	Flags   string
	Rows    []Row
}

// Remake is the command that makes the table anew.
const Remake = "go run ./cmd/minfer-ptx"

const columns = "kernel\tarch\tthreads\tregisters\tspill_stores\tspill_loads\tstack\tshared\tblocks_per_sm\tlimited_by"

// String is the table as it is committed.
func (t *Table) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "# nvcc %s %s; made by: %s\n%s\n", t.Release, t.Flags, Remake, columns)
	for _, r := range t.Rows {
		s.WriteString(r.String() + "\n")
	}
	return s.String()
}

// String is the row as it is committed.
func (r Row) String() string {
	return fmt.Sprintf("%s\tsm_%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s", r.Kernel, r.Arch, r.Threads, r.Registers, r.SpillStores, r.SpillLoads, r.StackBytes, r.SharedBytes, r.BlocksPerSM, r.LimitedBy)
}

// Sort orders the rows by kernel and architecture.
func (t *Table) Sort() { slices.SortFunc(t.Rows, compare) }

func compare(a, b Row) int {
	return cmp.Or(strings.Compare(a.Kernel, b.Kernel), cmp.Compare(a.Arch, b.Arch))
}

// Find is the row of a kernel and architecture.
func (t *Table) Find(kernel string, arch int) (Row, bool) {
	i, ok := slices.BinarySearchFunc(t.Rows, Row{Kernel: kernel, Arch: arch}, compare)
	if !ok {
		return Row{}, false
	}
	return t.Rows[i], true
}

// Parse reads what String wrote.
func Parse(text string) (*Table, error) {
	t := &Table{}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fail := func(format string, args ...any) (*Table, error) {
			return nil, fmt.Errorf("%s:%d: %s", File, n+1, fmt.Sprintf(format, args...))
		}
		switch n {
		case 0:
			rest, ok := strings.CutPrefix(line, "# nvcc ")
			head, _, ok2 := strings.Cut(rest, "; ")
			t.Release, t.Flags, _ = strings.Cut(head, " ")
			if !ok || !ok2 {
				return fail("%q does not name the compiler", line)
			}
			continue
		case 1:
			if line != columns {
				return fail("the columns are %q, wanted %q", line, columns)
			}
			continue
		}
		cells := strings.Split(line, "\t")
		if want := strings.Count(columns, "\t") + 1; len(cells) != want {
			return fail("%d cells instead of %d", len(cells), want)
		}
		r := Row{Kernel: cells[0], LimitedBy: cells[9]}
		for i, to := range []*int{&r.Arch, &r.Threads, &r.Registers, &r.SpillStores, &r.SpillLoads, &r.StackBytes, &r.SharedBytes, &r.BlocksPerSM} {
			v, err := strconv.Atoi(strings.TrimPrefix(cells[i+1], "sm_"))
			if err != nil {
				return fail("%q is no number", cells[i+1])
			}
			*to = v
		}
		if i := len(t.Rows); i > 0 && compare(t.Rows[i-1], r) >= 0 {
			return fail("%s for sm_%d is out of order or there twice", r.Kernel, r.Arch)
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}

var (
	entryText = regexp.MustCompile(`Compiling entry function '([^']+)' for 'sm_(\d+)\w?'`)
	stackText = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedText  = regexp.MustCompile(`Used (\d+) registers`)
	smemText  = regexp.MustCompile(`(\d+) bytes smem`)
)

// ParseReport reads what the assembler says of the kernels of a module (ptxas -v): all of Row but Threads and what follows
// from it.
func ParseReport(report string) ([]Row, error) {
	var rows []Row
	for line := range strings.Lines(report) {
		if m := entryText.FindStringSubmatch(line); m != nil {
			arch, _ := strconv.Atoi(m[2])
			rows = append(rows, Row{Kernel: m[1], Arch: arch, Registers: -1, StackBytes: -1})
			continue
		}
		if len(rows) == 0 {
			continue
		}
		r := &rows[len(rows)-1]
		if m := stackText.FindStringSubmatch(line); m != nil && r.StackBytes < 0 {
			r.StackBytes, _ = strconv.Atoi(m[1])
			r.SpillStores, _ = strconv.Atoi(m[2])
			r.SpillLoads, _ = strconv.Atoi(m[3])
		}
		if m := usedText.FindStringSubmatch(line); m != nil && r.Registers < 0 {
			r.Registers, _ = strconv.Atoi(m[1])
			if m := smemText.FindStringSubmatch(line); m != nil {
				r.SharedBytes, _ = strconv.Atoi(m[1])
			}
		}
	}
	for _, r := range rows {
		if r.Registers < 0 || r.StackBytes < 0 {
			return nil, fmt.Errorf("the assembler does not say what %s takes on sm_%d", r.Kernel, r.Arch)
		}
	}
	return rows, nil
}

// Fit fills in how many blocks of at most threads threads fit on a multiprocessor.
func (r *Row) Fit(l Limits, threads int) {
	o := l.Occupancy(threads, r.Registers, r.SharedBytes)
	r.Threads, r.BlocksPerSM, r.LimitedBy = threads, o.Blocks, o.Limit()
}

// Faults are what is wrong with the table beside the committed one: a kernel that spills, or uses stack, where it did not
// or more than it did, and one of which not even one block fits. It holds between different compilers.
func (t *Table) Faults(committed *Table) error {
	var errs []error
	for _, r := range t.Rows {
		fault := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("kernel %s on sm_%d %s", r.Kernel, r.Arch, fmt.Sprintf(format, args...)))
		}
		old, _ := committed.Find(r.Kernel, r.Arch) // a new kernel is to be without spills
		if r.SpillStores > old.SpillStores || r.SpillLoads > old.SpillLoads {
			fault("spills %d bytes and loads %d back, %d and %d are known", r.SpillStores, r.SpillLoads, old.SpillStores, old.SpillLoads)
		}
		if r.StackBytes > old.StackBytes {
			fault("takes %d bytes of stack, %d are known", r.StackBytes, old.StackBytes)
		}
		if r.Threads == 0 {
			fault("has no launch bounds")
		} else if r.BlocksPerSM == 0 {
			fault("takes %d registers and %d bytes of shared memory: not one block of %d threads fits (limited by %s)", r.Registers, r.SharedBytes, r.Threads, r.LimitedBy)
		}
	}
	return errors.Join(errs...)
}

// Diff lists the rows in which the table and the committed one differ, one change a line: "-" what is committed, "+" what
// is now. It is empty if they are alike.
func (t *Table) Diff(committed *Table) string {
	var s strings.Builder
	i, j := 0, 0
	for i < len(committed.Rows) || j < len(t.Rows) {
		order := 0
		switch {
		case i == len(committed.Rows):
			order = 1
		case j == len(t.Rows):
			order = -1
		default:
			order = compare(committed.Rows[i], t.Rows[j])
		}
		if order == 0 && committed.Rows[i] == t.Rows[j] {
			i, j = i+1, j+1
			continue
		}
		if order <= 0 {
			fmt.Fprintf(&s, "-%s\n", committed.Rows[i])
			i++
		}
		if order >= 0 {
			fmt.Fprintf(&s, "+%s\n", t.Rows[j])
			j++
		}
	}
	return s.String()
}
