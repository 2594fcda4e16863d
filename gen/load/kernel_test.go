package load_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// Each case breaks one spec of this repository in one place. What is said names that place: the line that the broken text is on.
func TestKernelRefusals(t *testing.T) {
	const (
		matvec = "kernels/matvec-q8.yaml"
		f32    = "kernels/matvec-f32.yaml"
		norm   = "kernels/rmsnorm.yaml"
		ring   = "kernels/matvec-ring-q8.yaml"
		mma    = "kernels/matmul-bf16.yaml"
		wgmma  = "kernels/matmul-wgmma.yaml"
		tile   = "kernels/tile-q8.yaml"
		attend = "kernels/attend-split.yaml"
		gate   = "kernels/gate-ring-q8.yaml"
		topK   = "kernels/top-k.yaml"
	)
	cases := []struct{ file, from, to, want string }{
		{matvec, "class: q8", "class: f32", "class: body matvec_q8 is of class q8, not f32"},
		{"devices/sm90.yaml", "arch: 90", "arch: 80", "architecture 80 is already described by specs/devices/sm80.yaml"},
		{norm, "kernel: rmsnorm", "kernel: rope", "kernel rope is already declared at specs/kernels/rmsnorm.yaml:"},
		{ring, "over: matvec-q8", "over: matvec-f32", "over: matvec-f32 is no family of op matmul and class q8"},
		{norm, "row: rows", "row: rowz", `dims.row: no size is called rowz (meant rows?); the sizes are rows, cols`},
		{norm, "dims: {row: rows", "dims: {token: tokens, row: rows", "axis token is dealt nowhere: its work would never be done; add it to deal"},
		{norm, "name: eps", "name: cols", "argument cols is given twice"},
		{norm, "name: eps", "name: epsilon", "body rmsnorm takes no argument epsilon; it takes x f32*, w f32*, out out f32*, out halves u16*, cols i32, eps f32"},
		{norm, "name: eps", "name: while", "body rmsnorm takes no argument while; it takes x f32*"},
		{norm, "name: eps", "name: epz", "body rmsnorm takes no argument epz (meant eps?); it takes x f32*"},
		{norm, "name: eps", "name: epz", "args: body rmsnorm takes eps f32, which is missing"},
		{norm, "  - {name: w, type: f32*, doc: \"[cols]\"}\n", "", "args: body rmsnorm takes w f32*, which is missing"},
		{norm, `type: f32, doc: "added`, `type: i32, doc: "added`, "argument eps is i32; body rmsnorm takes eps f32"},
		{norm, `type: f32, doc: "added`, `type: f32, out: true, doc: "added`, "argument eps has out: true; body rmsnorm takes eps f32"},
		{norm, "type: f32*, out: true", "type: f32*", "argument out has out: false; body rmsnorm takes out out f32*"},
		{topK, "name: x, type: f32*", "name: x, type: i32*", "argument x is i32*; body top_k takes x f32* or i64*"},
		{ring, "name: x, type: u8*", "name: x, type: f32*", "argument x is f32*; body matvec_ring takes x u8*"},
		{gate, "options: {quantize: 1, pairs: 1}", "options: {pairs: 1}", "body matvec_ring takes no argument norm; it takes cols i32, out claims u32*, x u8*, w u8*, out y f32*, rows i32, w_up u8*"},
		{gate, "options: {quantize: 1, pairs: 1}", "options: {quantize: 1}", "args: body matvec_ring takes bias f32*, which is missing"},
		{gate, "c56: {doc", "c56: {options: {pairs: 0}, doc", "option pairs decides which arguments body matvec_ring takes, so it has one value in all variants; allowed: 1"},
		{gate, "stages: [4, 8]", "pairs: [0, 1]", "option pairs decides which arguments body matvec_ring takes, so it has one value in all variants; allowed: 1"},
		{norm, "template: rmsnorm", "template: rmsnormal", "template: no body of GPUs is called rmsnormal (meant rmsnorm?); there are add, argmax, "},
		{norm, "template: rmsnorm", "template: tile", "template: no body of GPUs is called tile"},
		{tile, "template: tile", "template: matvec_q8", "template: no body of the CPU is called matvec_q8; there are plain, tile"},
		{norm, "name: round, at", "name: thread, at", "digit thread is declared twice"},
		{tile, "name: panel, at: loop", "name: panel, at: grid.x", "digit panel: a CPU has no grid.x; allowed: lane, slot, loop"},
		{norm, "at: thread", "at: lane", "digit thread: a thread of a GPU has no lanes; allowed: grid.x"},
		{norm, "radix: 256}", "radix: 256, open: true}", "digit thread has a radix and is open; one of the two is due"},
		{norm, "at: thread, radix: 256}", "at: thread}", "digit thread has no radix; give one, or say open: true"},
		{norm, "unit: [elem]", "unit: [elen]", `cover: no axis is called elen (meant elem?); the axes are row, elem`},
		{norm, "unit: [elem]", "unit: [row, elem]", "cover: axis row is given twice"},
		{norm, "row: [row], unit: [elem]", "unit: [elem]", "cover: axis row is dealt and not counted, so that nobody would see its work missing; add it"},
		{matvec, "unit: [unit], token: [token]", "unit: [unit]", "cover: axis token is dealt and not counted"},
		{attend, "row: [kv_head], unit", "unit", "cover: axis kv_head is dealt and not counted"},
		{attend, "row: [kv_head], unit", "row: [kv_head, head], unit", "cover: body attend_split does not count axis head; leave it out"},
		{"kernels/attend-step.yaml", "name: token, at: grid.z, radix: 1", "name: token, at: grid.z, open: true", "cover: axis token is dealt and not counted"},
		{matvec, "formats: [blocks]", "formats: [blocks, q4_K]", "formats: q4_K names no further format; allowed: blocks, weights, "},
		{norm, "block: {doc", "block: {features: [avx2], doc", "variant block: features are of a CPU; arch says what a GPU needs"},
		{tile, "features: [avx2],", "features: [avx3],", `variant avx2: no feature is called avx3 (meant avx2?); allowed: `},
		{tile, "avx2: {doc", "avx2: {arch: 80, doc", "variant avx2: a CPU has no arch, shared memory, helpers or launches that await each other"},
		{tile, "avx2: {doc", "avx2: {only: true, doc", "variant avx2: a CPU has no arch, shared memory, helpers or launches that await each other"},
		{norm, "block: {doc", "block: {only: true, doc", "variant block: only: true is of the arch, and there is none; give one, or leave only out"},
		{wgmma, "arch: 90, only: true", "only: true", "variant padded: only: true is of the arch, and there is none; give one, or leave only out"},
		{norm, "block: {doc", "block: {weights: file, doc", "variant block asks how weights lie, but the family has no formats"},
		{matvec, "weights: padded\n  v2_pf", "weights: planed\n  v2_pf", "variant v2: no format of the family has a layout planed"},
		{norm, "block: {doc", "block: {switch: 'MINFER_{format}', doc", "variant block: {format} stands for a format's name, but the family has no formats"},
		{ring, "formats: [q8_0]", "formats: [q2_K]", "variant c76_wide: q2_K is no format of the family"},
		{matvec, "radix: {round: 2}", "radix: {rounds: 2}", `variant v2_pf: no digit is called rounds (meant round?); the digits are block, token, thread, round`},
		{matvec, "radix: {round: 2}", "radix: {round: 0}", "variant v2_pf: digit round has radix 0; allowed: at least 1"},
		{norm, "block: {doc", "block: {deal: {col: {over: [block]}}, doc", "variant block deals axis col, which the family does not have; its axes are row, elem"},
		{norm, "dims: {row: rows, elem: cols}", "dims: {row: rows}", "deal: axis elem has no size; add it to dims"},
		{attend, "fixed_bytes: 16640", "per_bytes: 4", "shared: per_bytes and axis go together"},
		{attend, "fixed_bytes: 16640", "per_bytes: 4, axis: elems", "shared: no axis is called elems; the axes are "},
		{ring, "shared: {ring", "shared: {fixed_bytes: 16, ring", "shared: one of ring, tiles, and fixed_bytes with per_bytes leaves no room for another; give one"},
		{mma, "axes: [row, token]", "axes: [row, tokens]", "shared.tiles: no axis is called tokens (meant token?); the axes are row, token, unit"},
		{wgmma, "align_bytes: 1024", "align_bytes: 768", "shared.tiles: align_bytes is 768; allowed: powers of two"},
		{matvec, "same_bits: [v2]", "same_bits: [v2_pf]", "same_bits: v2_pf is no other variant; the variants are v1, v2, v2_pf"},
		{norm, "block: {doc", "block: {ceiling: {width: 5}, doc", "ceiling: no size is called width; the sizes are "},
		{ring, "sums: column", "sums: col", "shared.ring: col is no digit with a radix; the digits are block, "},
		{norm, "over: [block]", "over: [blok]", `deal.row: no digit is called blok (meant block?); the digits are block, thread, round`},
		{norm, "row: {over: [block]}", "row: {over: [block], stride: {block: 1}}", "deal.row: one of over and stride is due"},
		{norm, "over: [thread, round]", "over: [round, thread]", "deal.elem: digit round is open in variant block, so nothing can come after it; put it last"},
		{norm, "over: [thread, round]", "over: [thread, thread]", "deal.elem: digit thread is given twice"},
		{ring, "share: block, queue: true, over: [slot, group, round]", "queue: true, over: [slot, group, block]", "deal.row: a queue is what blocks turn to after their share, and there is no share"},
		{attend, "share: share", "share: warp", "deal.position: digit warp cannot share the axis; an open digit of the grid can"},
		{matvec, "elems_of: {q4_K: 64}", "elems_of: {f16: 64}", "deal.unit.elems_of: f16 is no format of the family"},
		{matvec, "dim: cols, above: 8192, ", "above: 8192, ", "routes: above and up_to need the dim that they compare"},
		{matvec, "dim: cols, above: 8192, ", "dim: heads, above: 8192, ", "routes: the family has no size heads; the sizes are cols rows tokens"},
		{norm, "block: {doc", "block: {routes: [{tokens_above: 3, figure: f, device: d, date: \"2026-12-01\", command: c}], doc", "routes: tokens_above, but the family has no size tokens; the sizes are cols rows"},
		{matvec, "dim: cols, above: 8192, ", "dim: cols, above: 8192, up_to: 8192, ", "routes: up_to is 8192, and nothing lies above 8192 up to there"},
		{matvec, "{dim: cols, above", "{formats: [f16], dim: cols, above", "routes: f16 is no format of the family"},
		{f32, "    elems_up_to: 23999999\n", "", "crossovers: no size is bounded; give rows_above, cols_up_to or elems_up_to"},
		{f32, "class: q8\n    formats: [q4_K]", "class: f32\n    formats: [q4_K]", "crossovers: f32 is the family's own class; variants of one class are ordered by routes"},
		{f32, "formats: [q4_K]", "formats: [q4_K, a8]", "crossovers: a8 is no format of the family"},
		{matvec, "free: {thread: [64", "free: {threads: [64", "free: no digit or option is called threads (meant thread?); there are block, token, thread, round, hoist"},
		{matvec, "free: {thread: [64", "free: {stages: [4], thread: [64", "free: no digit or option is called stages; there are"},
		{matvec, "free: {thread: [64", "free: {block: [64", "free: digit block is on grid.x, where the shape says how many blocks there are; allowed: digits of threads, lanes, loops and slots"},
		{matvec, "free: {thread: [64", "free: {thread: [0", "free: thread is 0; allowed: 1 to 1024 threads of a block"},
		{matvec, "128, 256, 512]}", "128, 256, 512, 2048]}", "free: thread is 2048; allowed: 1 to 1024 threads of a block"},
		{ring, "slot: [1, 2, 4, 8]", "slot: [0, 8]", "free: slot is 0; allowed: 1 to 4194304 values of a digit"},
		{ring, "stages: [4, 8]", "stages: [1, 8]", "free: stages is 1; allowed: 2 to 64 stages of a ring"},
		{ring, "stages: [4, 8]", "stages: [4, 65]", "free: stages is 65; allowed: 2 to 64 stages of a ring"},
		{ring, "stages: [4, 8]", "pairs: [0, 2]", "option pairs of template matvec_ring is 2; allowed: 0, 1"},
		{matvec, "free: {thread: [64, 128, 256, 512]}", "free: {hoist: [0, 1]}", "option hoist of template matvec_q8 needs a radix for digit round, which is open in variant v1"},
		{matvec, "options: {hoist: 1}", "options: {hoost: 1}", "template matvec_q8 has no option hoost (meant hoist?); allowed: hoist"},
		{matvec, "options: {hoist: 1}", "options: {hoist: 2}", "option hoist of template matvec_q8 is 2; allowed: 0, 1"},
		{matvec, "    radix: {round: 2}\n", "", "option hoist of template matvec_q8 needs a radix for digit round, which is open in variant v2_pf"},
		{norm, "variants:", "options: {fast: 1}\nvariants:", "template rmsnorm has no options, so none is called fast"},
	}
	said := map[string]bool{}
	for _, c := range cases {
		base := copySpecs(t)
		text := string(base[c.file].Data)
		if strings.Count(text, c.from) == 0 {
			t.Errorf("%s has no %q", c.file, c.from)
			continue
		}
		base[c.file] = &fstest.MapFile{Data: []byte(strings.Replace(text, c.from, c.to, 1))}
		diags := loadAll(t, base)
		found := false
		for _, line := range diags {
			if strings.Contains(line, ": "+c.want) {
				found = true
				said[line] = true
				if !regexp.MustCompile(`^specs/[a-z0-9/-]+\.yaml:\d+:\d+: `).MatchString(line) {
					t.Errorf("no position: %s", line)
				}
			}
		}
		if !found {
			t.Errorf("%s with %q: %q, want %q", c.file, c.to, diags, c.want)
		}
	}
	// Each value of a list is looked at, whatever is wrong with one before.
	several := copySpecs(t)
	several[ring] = &fstest.MapFile{Data: []byte(strings.Replace(string(several[ring].Data), "stages: [4, 8]", "stages: [1, 8, 65, 70]", 1))}
	for _, n := range []string{"1", "65", "70"} {
		if lines := strings.Join(loadAll(t, several), "\n"); !strings.Contains(lines, "free: stages is "+n+"; allowed: 2 to 64 stages of a ring") {
			t.Errorf("stages %s is not refused: %s", n, lines)
		}
	}
	none := copySpecs(t)
	for name := range none {
		if strings.HasPrefix(name, "devices/") {
			delete(none, name)
		}
	}
	for _, line := range loadAll(t, none) {
		said[line] = true
	}

	// Nothing that the loader can say of a kernel goes untried.
	file, err := parser.ParseFile(token.NewFileSet(), "kernel.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Addf" {
			return true
		}
		format, err := strconv.Unquote(call.Args[1].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		messages++
		pattern := regexp.MustCompile(": " + regexp.MustCompile(`%[sdt]`).ReplaceAllString(regexp.QuoteMeta(format), ".*") + "$")
		for line := range said {
			if pattern.MatchString(line) {
				return true
			}
		}
		t.Errorf("no case says %q", format)
		return true
	})
	if messages < 40 {
		t.Errorf("%d messages found in kernel.go", messages)
	}
}

func copySpecs(t *testing.T) fstest.MapFS {
	t.Helper()
	all := fstest.MapFS{}
	err := fs.WalkDir(specs.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(specs.FS, name)
		all[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func loadAll(t *testing.T, fsys fs.FS) (lines []string) {
	t.Helper()
	set, diags, err := spec.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	_, _, more := load.Load(set)
	diags.Add(more)
	for _, d := range diags {
		lines = append(lines, d.String())
	}
	return lines
}
