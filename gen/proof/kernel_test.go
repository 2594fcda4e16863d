package proof_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// Dealings that would drop work, repeat it or write an output twice are refused by name.
func TestKernelsRefuse(t *testing.T) {
	const matvec = "kernels/matvec-q8.yaml"
	const round = "  - {name: round, at: loop, open: true}\n"
	for _, c := range []struct{ name, old, new, want string }{
		{"two digits on one axis of the grid", "at: grid.y", "at: grid.x", "digits block and token both live on grid.x"},
		{"a sum spread over blocks", round, "  - {name: sub, at: grid.z, radix: 2}\n" + round, "digit sub"},
		{"two rows in one sum", "  - {name: thread, at: thread, radix: 256}", "  - {name: w2, at: thread, radix: 2}\n  - {name: thread, at: thread, radix: 256}", "digit w2"},
		{"no whole warps", "radix: 256}", "radix: 255}", "a block has 255 threads"},
		{"a digit nobody deals", "unit: {elems: 32, elems_of: {q4_K: 64}, over: [thread, round]}", "unit: {elems: 32, elems_of: {q4_K: 64}, over: [thread]}", "digit round is dealt to no axis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := changed(t, matvec, c.old, c.new)
			if c.name == "a sum spread over blocks" {
				text = strings.Replace(text, "over: [thread, round]", "over: [thread, sub, round]", 1)
			}
			if c.name == "two rows in one sum" {
				text = strings.Replace(text, "row: {over: [block]}", "row: {over: [w2, block]}", 1)
			}
			found := proved(t, matvec, text)
			if text := found.Error(); len(found) == 0 || !strings.Contains(text, c.want) || !strings.Contains(text, "specs/kernels/matvec-q8.yaml:") {
				t.Errorf("no %q in %q", c.want, text)
			}
		})
	}
}

// Tiles that no device has room for, and sums over what more than one thread holds.
func TestTilesRefuse(t *testing.T) {
	const mma, wgmma = "kernels/matmul-bf16.yaml", "kernels/matmul-wgmma.yaml"
	for _, c := range []struct{ name, old, new, want string }{
		{mma, "stages: 2", "stages: 4", "matmul-bf16/padded: the tiles of a block take 262208 bytes of shared memory (4 stages of 128 rows and 128 tokens of 256 bytes, each stage with two barriers), more than any device allows"},
		{mma, "- {name: piece, at: slot, radix: 4}", "- {name: piece, at: thread, radix: 4}", "digit piece spreads unit over threads, each of which would write its own sum; body matmul_mma adds within a thread"},
		{wgmma, "stages: 3", "stages: 4", "matmul-wgmma/padded: the tiles of a block take 263232 bytes of shared memory (4 stages of 128 rows and 128 tokens of 256 bytes, each stage with two barriers, and room to begin at a multiple of 1024), more than any device allows"},
		{wgmma, "radix: {column: 20}", "radix: {column: 20, along: 3}", "matmul-wgmma/lanes_r160: the tiles of a block take 271408 bytes of shared memory (3 stages of 160 rows and 192 tokens of 256 bytes"},
		{wgmma, "- {name: piece, at: slot, radix: 4}", "- {name: piece, at: thread, radix: 4}", "digit piece spreads unit over threads, each of which would write its own sum; body matmul_wgmma adds within a thread"},
	} {
		if found := proved(t, c.name, changed(t, c.name, c.old, c.new)).Error(); !strings.Contains(found, c.want) || !strings.Contains(found, "specs/"+c.name+":") {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// Tensor cores have places of their own for what a lane holds.
func TestFragmentsRefuse(t *testing.T) {
	const mma, attend, step = "kernels/matmul-bf16.yaml", "kernels/attend-mma.yaml", "kernels/attend-step-mma.yaml"
	for _, c := range []struct{ name, old, new, want string }{
		{mma, "row: {over: [group, half,", "row: {over: [half, group,", "digit group: the tensor cores of body matmul_mma deal it with radix 8 and stride 1 of axis row"},
		{mma, "token: {over: [pair, seat,", "token: {over: [seat, pair,", "digit pair: the tensor cores"},
		{mma, "name: seat, at: thread, radix: 4", "name: seat, at: thread, radix: 2", "digit seat: the tensor cores"},
		{mma, "name: half, at: slot, radix: 2", "name: half, at: slot, radix: 1", "digit half: the tensor cores"},
		{mma, "helpers: 128\n", "", "helpers are due: body matmul_mma decodes weights with threads of their own"},
		{attend, "token: {over: [group, half,", "token: {over: [half, group,", "digit half: the tensor cores of body attend_mma deal it with radix 2 and stride 8 of axis token"},
		{step, "position: {share: share, over: [pair, seat,", "position: {share: share, over: [seat, pair,", "digit pair: the tensor cores of body attend_step_mma deal it with radix 2 and stride 1 of axis position"},
		{step, "name: query, at: thread, radix: 8", "name: query, at: thread, radix: 16", "digit query: the tensor cores of body attend_step_mma deal it with radix 8 and stride 1 of axis head"},
		{step, "  - {name: query, at: thread, radix: 8}\n  - {name: seat, at: thread, radix: 4}\n", "  - {name: seat, at: thread, radix: 4}\n  - {name: query, at: thread, radix: 8}\n", "the last digits of the thread are query, seat, which number the lanes of body attend_step_mma"},
	} {
		if found := proved(t, c.name, changed(t, c.name, c.old, c.new)).Error(); !strings.Contains(found, c.want) || !strings.Contains(found, "specs/"+c.name+":") {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// Warpgroups multiply so many columns at a time and no others, by warps of 16 rows.
func TestWarpgroupsRefuse(t *testing.T) {
	const (
		wgmma = "kernels/matmul-wgmma.yaml"
		along = "  - {name: along, at: thread, radix: 2}\n"
		warp  = "  - {name: warp, at: thread, radix: 4}\n"
		group = "  - {name: group, at: thread, radix: 8}\n"
		row   = "row: {over: [pair, seat, column, block]}"
		token = "token: {over: [group, half, warp, along, tile]}"
		lanes = "the last digits of the thread are along, warp, group, seat, which number the lanes of body matmul_wgmma"
	)
	for _, c := range []struct{ old, new, want string }{
		{"name: column, at: slot, radix: 16", "name: column, at: slot, radix: 12", "matmul-wgmma/padded: digit column: products of 96 columns; the warpgroups of body matmul_wgmma multiply [64 128 160]"},
		{"name: column, at: slot, radix: 16", "name: column, at: slot, radix: 32", "matmul-wgmma/padded: digit column: products of 256 columns"},
		{"radix: {column: 20}", "radix: {column: 1}", "matmul-wgmma/lanes_r160: digit column: products of 8 columns"},
		{warp, "  - {name: warp, at: thread, radix: 2}\n", "digit warp: the tensor cores of body matmul_wgmma deal it with radix 4 and stride 16 of axis token"},
		{warp, "  - {name: warp, at: thread, radix: 8}\n", "digit warp: the tensor cores of body matmul_wgmma deal it with radix 4 and stride 16 of axis token"},
		{token, "token: {over: [group, half, along, warp, tile]}", "digit warp: the tensor cores of body matmul_wgmma deal it with radix 4 and stride 16 of axis token"},
		{token, "token: {over: [group, half, along, warp, tile]}", "digit along: the tensor cores of body matmul_wgmma deal it with stride 64 of axis token"},
		{token, "token: {over: [group, warp, half, along, tile]}", "digit half: the tensor cores of body matmul_wgmma deal it with radix 2 and stride 8 of axis token"},
		{token, "token: {over: [half, group, warp, along, tile]}", "digit group: the tensor cores of body matmul_wgmma deal it with radix 8 and stride 1 of axis token"},
		{row, "row: {over: [pair, column, seat, block]}", "digit seat: the tensor cores of body matmul_wgmma deal it with radix 4 and stride 2 of axis row"},
		{row, "row: {over: [pair, column, seat, block]}", "digit column: the tensor cores of body matmul_wgmma deal it with stride 8 of axis row"},
		{row, "row: {over: [seat, pair, column, block]}", "digit pair: the tensor cores of body matmul_wgmma deal it with radix 2 and stride 1 of axis row"},
		{along + warp, warp + along, lanes},
		{warp + group, group + warp, lanes},
		{"name: along, at: thread", "name: along, at: slot", lanes},
		{"name: piece, at: slot, radix: 4", "name: piece, at: slot, radix: 2", "a unit of 32 elements in each of 2 pieces; body matmul_wgmma takes 128"},
		{"helpers: 256\n", "", "helpers are due: body matmul_wgmma decodes weights with threads of their own"},
		{"helpers: 256", "helpers: 240", "256 threads deal work and 240 help; both are whole warps of 32"},
		{"helpers: 256", "helpers: 64", "64 threads help with 128 tokens; body matmul_wgmma takes whole warpgroups of them"},
		{"helpers: 256", "helpers: 384", "384 threads help with 128 tokens; body matmul_wgmma takes whole warpgroups of them"},
		{"align_bytes: 1024", "align_bytes: 512", "shared.tiles has row_bytes: 256, align_bytes: 512; body matmul_wgmma has 256 and 1024"},
		{", align_bytes: 1024", "", "shared.tiles has row_bytes: 256, align_bytes: 0; body matmul_wgmma has 256 and 1024"},
		{"row_bytes: 256", "row_bytes: 128", "shared.tiles has row_bytes: 128, align_bytes: 1024; body matmul_wgmma has 256 and 1024"},
		{"stages: 3", "stages: 1", "shared.tiles has stages: 1; body matmul_wgmma has 2 to 64"},
		{"axes: [row, token]", "axes: [row]", "shared.tiles has axes row; body matmul_wgmma has tiles of row and token"},
		{"shared: {tiles: {axes: [row, token], stages: 3, row_bytes: 256, align_bytes: 1024}}\n", "", "shared.tiles is due: body matmul_wgmma multiplies out of them"},
		{row + "\n  " + token, "row: {over: [pair, seat, column, tile]}\n  token: {over: [group, half, warp, along, block]}", "digit block: body matmul_wgmma numbers the tiles of 128 rows by it"},
		{"    only: true\n", "", "matmul-wgmma/lanes_r160: arch: 90, only: true is due: no other architecture has the instructions of body matmul_wgmma"},
		{"    arch: 90\n", "    arch: 80\n", "matmul-wgmma/lanes_r160: arch: 90, only: true is due"},
	} {
		if found := proved(t, wgmma, changed(t, wgmma, c.old, c.new)).Error(); !strings.Contains(found, c.want) || !strings.Contains(found, "specs/"+wgmma+":") {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// Runs that the kernels of the best keys cannot sort or sift.
func TestRunsRefuse(t *testing.T) {
	const top, merge = "kernels/top-k.yaml", "kernels/top-k-merge.yaml"
	for _, c := range []struct{ file, old, new, want string }{
		{top, "radix: {slot: 4, place: 64}", "radix: {thread: 384, slot: 4, place: 48}", "top-k/sift: 384 threads sift"},
		{merge, "radix: {thread: 512, slot: 10, place: 64}", "radix: {thread: 384, slot: 10, place: 48}", "top-k-merge/sift: 384 threads sift"},
		{top, "radix: {slot: 4, place: 64}", "radix: {slot: 4, place: 128}", "top-k/sift: 128 places of 2048 keys; body top_k has 64 at most there"},
		{top, "fixed_bytes: 5144", "fixed_bytes: 100", "top-k/sift: shared.fixed_bytes is 100; body top_k takes 5132 with these digits"},
		{top, "fixed_bytes: 32768", "fixed_bytes: 16384", "top-k/block: shared.fixed_bytes is 16384; body top_k takes 32768 with these digits"},
		{top, "{name: slot, at: slot, radix: 8}", "{name: slot, at: slot, radix: 6}", "top-k/block: runs of 3072 keys, 6 of a thread; body top_k sorts powers of two"},
		{top, "{name: place, at: slot, radix: 1024}", "{name: place, at: slot, radix: 4096}", "top-k/block: 4096 places of 4096 keys; body top_k has 2048 at most there"},
		{merge, "options: {sift: 1, lists: 1}", "options: {lists: 1}", "top-k-merge/sift: lists goes with sift in body top_k"},
		{top, "{name: run, at: grid.x, open: true}\n  - {name: row, at: grid.y, open: true}", "{name: run, at: grid.y, open: true}\n  - {name: row, at: grid.x, open: true}", "the runs of body top_k are digit run, at grid.x"},
	} {
		if found := proved(t, c.file, changed(t, c.file, c.old, c.new)).Error(); !strings.Contains(found, c.want) {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// Sums that a warp adds up, over other threads than those of one warp.
func TestWarpSumsRefuse(t *testing.T) {
	const f32 = "kernels/matvec-f32.yaml"
	for _, c := range []struct{ old, new, want string }{
		{"name: lane, at: thread, radix: 32", "name: lane, at: thread, radix: 64", "digit lane spreads unit over 64 threads, and body matvec_f32 adds within a warp of 32"},
		{"name: lane, at: thread, radix: 32", "name: lane, at: thread, radix: 16", "so its sum would mix outputs"},
	} {
		if found := proved(t, f32, changed(t, f32, c.old, c.new)).Error(); !strings.Contains(found, c.want) || !strings.Contains(found, "specs/"+f32+":") {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// Octets add up eight neighbouring threads, whatever digits these are.
func TestOctetsRefuse(t *testing.T) {
	const (
		ring = "kernels/matvec-ring-q8.yaml"
		seat = "  - {name: seat, at: thread, radix: 8}\n"
		col  = "  - {name: column, at: thread, radix: 56}\n"
	)
	for _, c := range []struct{ old, new, over, want string }{
		{col + seat, seat + col, "[seat, column]", "digit column is the lowest of the thread, where the octets of body matvec_ring have digit seat, so their sums would mix outputs"},
		{"  - {name: group, at: thread, radix: 1}\n" + col + seat, col + seat + "  - {name: group, at: thread, radix: 1}\n", "[seat, column]", "digit group is the lowest of the thread"},
		{seat, "  - {name: seat, at: thread, radix: 4}\n", "[seat, column]", "digit seat: the octets of body matvec_ring deal it with radix 8 and stride 1 of axis unit"},
		{"[seat, column]", "[column, seat]", "[column, seat]", "digit seat: the octets of body matvec_ring deal it with radix 8 and stride 1 of axis unit"},
		{"[seat, column]", "[column, seat]", "[column, seat]", "digit column: the octets of body matvec_ring deal it with stride 8 of axis unit"},
		{"over: [slot, group, round]", "over: [group, slot, round]", "[seat, column]", "digit slot: the octets of body matvec_ring deal it with stride 1 of axis row"},
		{"name: seat,", "name: lane,", "[lane, column]", "digit seat: the octets"},
		{"helpers: 32", "helpers: 64", "[seat, column]", "64 threads help; in body matvec_ring a warp of 32 copies rows and adds columns"},
		{"name: seat, at: thread", "name: seat, at: slot", "[seat, column]", "digit seat deals unit on slot; the octets of body matvec_ring have no units but those of the thread's digits seat and column"},
		{seat, "  - {name: part, at: loop, radix: 2}\n" + seat, "[seat, column, part]", "digit part deals unit on loop"},
	} {
		text := strings.Replace(changed(t, ring, c.old, c.new), "[seat, column]", c.over, 1)
		if found := proved(t, ring, text).Error(); !strings.Contains(found, c.want) || !strings.Contains(found, "specs/"+ring+":") {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// Barriers of a part of a block count whole warps.
func TestWholeWarpsRefuse(t *testing.T) {
	const ring = "kernels/matvec-ring-q8.yaml"
	for _, c := range []struct{ old, new, want string }{
		{"{column: 14, group: 4}", "{column: 14, group: 5}", "560 threads deal work and 32 help; both are whole warps of 32"},
		{"helpers: 32", "helpers: 48", "448 threads deal work and 48 help; both are whole warps of 32"},
	} {
		if found := proved(t, ring, changed(t, ring, c.old, c.new)).Error(); !strings.Contains(found, c.want) || !strings.Contains(found, "specs/"+ring+":") {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// A body takes so many elements at a time, whatever the spec says an index stands for: halved and doubled, each number of each family is
// refused, but for the bodies that take any multiple.
func TestUnitsRefuse(t *testing.T) {
	names, err := fs.Glob(specs.FS, "kernels/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	takes := map[string]string{
		"kernels/embed.yaml": "16 64", "kernels/matvec-f32.yaml": "16 64", "kernels/matvec-q8.yaml": "64", "kernels/matmul-q8.yaml": "64",
	}
	elems := regexp.MustCompile(`elems: (\d+)`)
	tried := 0
	for _, name := range names {
		data, err := fs.ReadFile(specs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		deal := text[strings.Index(text, "\ndeal:"):]
		deal = deal[:strings.Index(deal, "\ncover:")]
		for _, line := range strings.Split(deal, "\n")[1:] {
			if !strings.Contains(line, "{") {
				continue
			}
			was := 1
			if m := elems.FindStringSubmatch(line); m != nil {
				was, _ = strconv.Atoi(m[1])
			}
			for _, n := range []int{was / 2, 2 * was} {
				if n == 0 {
					continue
				}
				other := strings.Replace(line, "{", fmt.Sprintf("{elems: %d, ", n), 1)
				if elems.MatchString(line) {
					other = elems.ReplaceAllString(line, fmt.Sprintf("elems: %d", n))
				}
				tried++
				found := proved(t, name, strings.Replace(text, line, other, 1)).Error()
				refused := strings.Contains(found, "; body ") && strings.Contains(found, " takes ") || strings.Contains(found, "those of layout")
				if allowed := slices.Contains(strings.Fields(takes[name]), strconv.Itoa(n)); refused == allowed {
					t.Errorf("%s: %s: refused %t: %s", name, strings.TrimSpace(other), refused, found)
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("%d numbers tried", tried)
	}
}

// What digits deal by a queue, the body takes out of one, and nothing else.
func TestQueuesRefuse(t *testing.T) {
	const ring, gate, attend = "kernels/matvec-ring-q8.yaml", "kernels/gate-ring-q8.yaml", "kernels/attend-split.yaml"
	for _, c := range []struct{ name, old, new, want string }{
		{ring, "queue: true, ", "", "axis row has queue: false, and body matvec_ring says true"},
		{gate, "queue: true, ", "queue: false, ", "axis row has queue: false, and body matvec_ring says true"},
		{attend, "share: share, ", "share: share, queue: true, ", "axis position has queue: true, and body attend_split says false"},
	} {
		if found := proved(t, c.name, changed(t, c.name, c.old, c.new)).Error(); !strings.Contains(found, c.want) || !strings.Contains(found, "specs/"+c.name+":") {
			t.Errorf("no %q in %q", c.want, found)
		}
	}
}

// changed is the text of a spec with one change.
func changed(t *testing.T, name, from, to string) string {
	t.Helper()
	data, err := specs.FS.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), from, to, 1)
	if text == string(data) {
		t.Fatalf("%s is not what it was", name)
	}
	return text
}

var over = regexp.MustCompile(`(?m)^over:.*$`)

// proved is what the proof says of one kernel's spec, changed, beside those of formats and devices.
func proved(t *testing.T, name, text string) diag.List {
	t.Helper()
	fsys := fstest.MapFS{}
	if err := fs.WalkDir(specs.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Dir(name) == "kernels" || path.Dir(name) == "routes" {
			return err
		}
		data, err := fs.ReadFile(specs.FS, name)
		fsys[name] = &fstest.MapFile{Data: data}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	fsys[name] = &fstest.MapFile{Data: []byte(over.ReplaceAllString(text, ""))} // alone: no family that it comes before
	set, diags, err := spec.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	catalog, pos, more := load.Load(set)
	diags.Add(more)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	return proof.Kernels(catalog, pos)
}
