package conform

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/conform"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

func entryOf(t testing.TB, family, format string) *kernel.Entry {
	t.Helper()
	for _, e := range gate.All {
		if e.Family == family && e.Format == format {
			return e
		}
	}
	t.Fatalf("there is no gate %s/%s", family, format)
	return nil
}

// Crossovers, on both sides of each of their bounds.
func TestCrossovers(t *testing.T) {
	for _, c := range []struct {
		format     string
		arch       int
		rows, cols int64
		want       bool
	}{
		{"q4_K", 90, 1024, 1024, false},
		{"q4_K", 90, 151936, 1024, false}, // measured: none
		{"q6_K", 90, 1025, 1024, false},
		{"q5_K", 121, 2048, 1024, false}, // not measured
		{"q4_K", 80, 1025, 1024, false},
		{"q4_K", 121, 2048, 4864, true},
		{"q4_K", 121, 1, 23999744, true},
		{"q4_K", 121, 1, 24000000, false},
		{"q4_K", 121, 3584, 18944, false},
		{"q6_K", 121, 512, 5120, true},
		{"q6_K", 121, 1024, 5120, false},
		// Products past 32 bits are no small ones.
		{"q6_K", 121, 1 << 31, 1 << 31, false},
	} {
		q := kernel.Query{Arch: c.arch, Rows: c.rows, Cols: c.cols, Tokens: 1}
		e := entryOf(t, "matvec-f32", c.format)
		if x := e.Overtakes("q8", &q); (x != nil) != c.want || x != nil && !strings.Contains(x.Why, "sm_"+strconv.Itoa(c.arch)) {
			t.Errorf("%s %dx%d on sm_%d: %v, want %v", c.format, c.rows, c.cols, c.arch, x, c.want)
		}
		if e.Overtakes("f32", &q) != nil || entryOf(t, "matvec-q8", c.format).Overtakes("f32", &q) != nil {
			t.Errorf("%s %dx%d: a crossover that no spec has", c.format, c.rows, c.cols)
		}
	}
}

// Gates, by the name that they choose or the reason that they refuse with, on both sides of each condition.
func TestGatesByName(t *testing.T) {
	type query = kernel.Query
	padded := func(rows, cols, tokens int64) query {
		return query{Rows: rows, Cols: cols, Tokens: tokens, Weights: "padded", Arch: 80, SharedBytes: 48 << 10}
	}
	file := func(rows, cols, tokens int64) query {
		q := padded(rows, cols, tokens)
		q.Weights = "file"
		return q
	}
	off := func(q query, name string) query {
		q.Off = kernel.Switches{name: true}
		return q
	}
	opted := func(q query) query {
		q.SharedBytes = 163 << 10
		return q
	}
	hopper := func(q query) query {
		q.Arch, q.SharedBytes = 90, 227<<10
		return q
	}
	later := func(q query) query {
		q.Arch, q.SharedBytes = 121, 227<<10
		return q
	}
	lanes := func(rows, cols, tokens int64) query {
		q := padded(rows, cols, tokens)
		q.Weights = "lanes"
		return q
	}
	heads := func(headDim, group int64) query {
		return query{KVHeads: 2, Heads: 2 * group, Group: group, HeadDim: headDim, Tokens: 1, Context: 100, Shares: 4, Weights: "file", Arch: 80}
	}
	old := padded(10, 5120, 1)
	old.Arch = 75
	bare := padded(10, 5120, 1)
	bare.Weights = ""
	for _, c := range []struct {
		family, format string
		q              query
		want           string // a variant, or part of the refusal
	}{
		// Rows of up to 8192 measured no better with two rounds; from there on to its ceiling the unrolled form is preferred.
		{"matvec-q8", "q6_K", padded(5120, 5120, 1), "v2"},
		{"matvec-q8", "q6_K", padded(5120, 8192, 1), "v2"},
		{"matvec-q8", "q6_K", padded(5120, 8448, 1), "v2_pf"},
		{"matvec-q8", "q6_K", padded(5120, 13824, 1), "v2_pf"}, // 432 units
		{"matvec-q8", "q6_K", padded(5120, 16384, 1), "v2_pf"}, // 512 units, the ceiling
		{"matvec-q8", "q6_K", padded(3584, 16640, 1), "v2"},    // 520
		{"matvec-q8", "q6_K", padded(3584, 18944, 1), "v2"},    // 592
		{"matvec-q8", "q6_K", off(padded(5120, 13824, 1), "MINFER_Q6K_PF"), "v2"},
		{"matvec-q8", "q6_K", off(padded(5120, 13824, 1), "MINFER_Q4K_PF"), "v2_pf"},
		{"matvec-q8", "q6_K", file(5120, 13824, 1), "v1"},
		{"matvec-q8", "q6_K", file(3584, 18944, 1), "v1"},
		{"matvec-q8", "q6_K", padded(10, 2560, 1), "v2"},
		{"matvec-q8", "q6_K", padded(10, 2176, 1), "cols 2176 breaks cols % 256 == 0 (block: a row is whole q6_K blocks)"},
		{"matvec-q8", "q6_K", padded(152064, 5120, 1), "v2"},
		{"matvec-q8", "q6_K", padded(2147483647, 5120, 1), "v2"},
		{"matvec-q8", "q6_K", padded(2147483648, 5120, 1), "rows 2147483648 breaks rows <= 2147483647 (grid: 2147483647 blocks in grid.x)"},
		{"matvec-q8", "q6_K", padded(0, 5120, 1), "rows 0 breaks rows >= 1"},
		{"matvec-q8", "q6_K", padded(10, 0, 1), "cols 0 breaks cols >= 256"},
		{"matvec-q8", "q6_K", padded(10, 5120, 65535), "v2"},
		{"matvec-q8", "q6_K", padded(10, 5120, 65536), "tokens 65536 breaks tokens <= 65535 (grid: 65535 blocks in grid.y)"},
		{"matvec-q8", "q6_K", old, "sm_75 is below arch >= sm_80"},
		{"matvec-q8", "q6_K", bare, `weights lie as "", needed weights padded`},
		// A unit of q4_K is 64 weights, and so its ceiling is twice as high.
		{"matvec-q8", "q4_K", padded(5120, 8192, 1), "v2"},
		{"matvec-q8", "q4_K", padded(3584, 18944, 1), "v2_pf"},
		{"matvec-q8", "q4_K", padded(3584, 32768, 1), "v2_pf"},
		{"matvec-q8", "q4_K", padded(3584, 33024, 1), "v2"},
		{"matvec-q8", "q4_K", padded(2048, 10944, 1), "cols 10944 breaks cols % 256 == 0 (block: a row is whole q4_K blocks)"},
		{"matvec-q8", "q8_0", padded(2048, 10944, 1), "v2_pf"},
		{"matvec-q8", "q8_0", padded(2048, 8640, 1), "v2_pf"},
		{"matvec-q8", "q8_0", padded(2048, 8192, 1), "v2"},
		{"matvec-q8", "q8_0", padded(2048, 8224, 1), "v2_pf"},
		{"matvec-q8", "q8_0", padded(2048, 16416, 1), "v2"},
		{"matvec-q8", "q8_0", padded(2048, 8208, 1), "cols 8208 breaks cols % 32 == 0"},
		{"matvec-f32", "q6_K", padded(512, 5120, 1), "padded_rows2"},
		{"matvec-f32", "q6_K", file(512, 5120, 1), "rows2"},
		{"matvec-f32", "f16", file(512, 5120, 1), "rows2"},
		{"matvec-f32", "f16", file(512, 5124, 1), "cols 5124 breaks cols % 8 == 0 (unit: a unit is 8 elements)"},
		{"matvec-f32", "f16", padded(512, 5120, 1), "weights lie as"},
		{"matmul-q8", "q6_K", padded(512, 5120, 9), "padded_t8"},
		{"matmul-q8", "q6_K", file(512, 5120, 9), "t8"},
		{"matmul-q8", "q6_K", file(512, 5120, 8*65535), "t8"},
		{"matmul-q8", "q6_K", file(512, 5120, 8*65535+1), "tokens 524281 breaks tokens <= 524280 (grid: 65535 blocks in grid.y * 8 tokens a block)"},
		{"matmul-bf16", "q6_K", opted(padded(5120, 5120, 512)), "padded"},
		{"matmul-bf16", "q6_K", opted(padded(5120, 5120, 64)), "padded_small"},
		{"matmul-wgmma", "q6_K", hopper(padded(5120, 5120, 512)), "padded"},
		{"matmul-wgmma", "q6_K", hopper(padded(5120, 5120, 64)), "padded_small"},
		{"matmul-wgmma", "q6_K", hopper(padded(1024, 5120, 512)), "padded_small"},
		{"matmul-wgmma", "q6_K", hopper(lanes(5120, 5120, 512)), "lanes_r160"},
		{"matmul-wgmma", "q6_K", hopper(lanes(5120, 5120, 385)), "lanes_r160"},
		{"matmul-wgmma", "q6_K", hopper(lanes(5120, 5120, 384)), "lanes"}, // three rounds of tokens are one of blocks either way
		{"matmul-wgmma", "q6_K", hopper(lanes(4224, 5120, 512)), "lanes"},
		{"matmul-wgmma", "q6_K", hopper(lanes(5281, 5120, 512)), "lanes"},
		{"matmul-wgmma", "q6_K", hopper(lanes(18944, 3584, 512)), "lanes"},
		{"matmul-wgmma", "q6_K", hopper(lanes(13824, 5120, 512)), "lanes_r160"},
		{"matmul-wgmma", "q6_K", hopper(lanes(1536, 3584, 512)), "lanes_r64"},
		{"matmul-wgmma", "q6_K", hopper(lanes(512, 3584, 512)), "lanes_small"},
		{"matmul-wgmma", "q6_K", opted(lanes(5120, 5120, 512)), "sm_80 breaks arch == sm_90 (code: the body uses instructions that no other architecture has)"},
		{"matmul-wgmma", "q6_K", later(lanes(5120, 5120, 512)), "sm_121 breaks arch == sm_90 (code: the body uses instructions that no other architecture has)"},
		{"matmul-bf16", "q6_K", opted(padded(2048, 5120, 512)), "padded_small"},
		{"matmul-bf16", "q6_K", padded(5120, 5120, 128*65535+1), "tokens 8388481 breaks tokens <= 8388480 (grid: 65535 blocks in grid.y * 128 tokens a block)"},
		{"matmul-bf16", "q6_K", query{Rows: 5120, Cols: 5120, Tokens: 512, Weights: "padded", Arch: 80, SharedBytes: 131103}, "padded_small"},
		{"matmul-bf16", "q6_K", padded(5120, 5120, 512), "a block may have 49152 bytes of shared memory, needed 131104 bytes of shared memory (memory: 2 stages of 128 rows and 128 tokens of 256 bytes, each stage with two barriers)"},
		{"matmul-bf16", "q6_K", file(5120, 5120, 512), "weights lie as"},
		{"embed", "q6_K", padded(0, 5120, 4), "padded"},
		{"embed", "q6_K", file(0, 5120, 4), "file"},
		{"embed", "q6_K", file(0, 5121, 4), "cols 5121 breaks cols % 256 == 0"},
		{"quantize-a8", "", query{Cols: 5120, Tokens: 3, Arch: 80}, "warp"},
		{"quantize-a8", "", query{Cols: 5136, Tokens: 3, Arch: 80}, "cols 5136 breaks cols % 32 == 0 (unit: threads work on 32 elements together)"},
		{"attend-split", "f16", heads(64, 8), "d128_g8"},
		{"attend-split", "f16", heads(128, 8), "d128_g8"},
		{"attend-split", "f16", heads(129, 8), "d256_g8"},
		{"attend-split", "f16", heads(256, 8), "d256_g8"},
		{"attend-split", "f16", heads(257, 8), "head_dim 257 breaks head_dim <= 256 (coverage: 32 lanes * 8 slots)"},
		{"attend-split", "f16", heads(128, 9), "group 9 breaks group <= 8 (coverage: 8 queries)"},
		{"attend-prefill", "f32", heads(128, 8), "d128"},
		{"attend-prefill", "f32", heads(192, 8), "d256"},
		{"attend-prefill", "f32", heads(257, 8), "head_dim 257 breaks head_dim <= 256"},
		{"attend-prefill", "q8_0", heads(96, 8), "d128"},
		{"attend-prefill", "q8_0", heads(80, 8), "head_dim 80 breaks head_dim % 32 == 0"},
		{"rope", "", query{Heads: 2, HeadDim: 64, Tokens: 2, Arch: 80}, "pairs"},
		{"rope", "", query{Heads: 2, HeadDim: 65, Tokens: 2, Arch: 80}, "head_dim 65 breaks head_dim % 2 == 0"},
	} {
		v, err := entryOf(t, c.family, c.format).Pick(&c.q)
		switch {
		case err == nil && v.Name != c.want:
			t.Errorf("%s/%s [%d, %d] x %d, heads of %d: %s, want %s", c.family, c.format, c.q.Rows, c.q.Cols, c.q.Tokens, c.q.HeadDim, v.Name, c.want)
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s/%s [%d, %d] x %d, heads of %d: %v\nwant %s", c.family, c.format, c.q.Rows, c.q.Cols, c.q.Tokens, c.q.HeadDim, err, c.want)
		}
	}
}

// A variable that is named after a format turns off variants of that format alone; every variable is listed with all that it turns off.
func TestSwitches(t *testing.T) {
	of := map[string][]string{}
	for _, e := range gate.All {
		for _, s := range e.Steps {
			if name := s.Variant.Switch; name != "" {
				of[name] = append(of[name], s.Variant.String())
			}
		}
	}
	for _, s := range gate.Switches {
		have := slices.Clone(s.Variants)
		slices.Sort(have)
		slices.Sort(of[s.Name])
		if !slices.Equal(have, of[s.Name]) {
			t.Errorf("%s is listed with %v, turns off %v", s.Name, have, of[s.Name])
		}
		delete(of, s.Name)
		if !strings.HasSuffix(s.Name, "_PF") {
			continue
		}
		for _, v := range s.Variants {
			if f := strings.Split(v, "/")[1]; s.Name != "MINFER_"+strings.ToUpper(strings.ReplaceAll(f, "_", ""))+"_PF" || !strings.HasSuffix(v, "/v2_pf") {
				t.Errorf("%s turns off %s", s.Name, v)
			}
		}
	}
	if len(of) > 0 {
		t.Errorf("not listed: %v", of)
	}
	q := kernel.Query{Rows: 5120, Cols: 13824, Tokens: 1, Weights: "padded", Arch: 80}
	for value, want := range map[string]string{"0": "v2", "1": "v2_pf", "": "v2_pf"} {
		t.Setenv("MINFER_Q6K_PF", value)
		q.Off = gpu.SwitchedOff()
		if v, err := entryOf(t, "matvec-q8", "q6_K").Pick(&q); err != nil || v.Name != want {
			t.Errorf("MINFER_Q6K_PF=%s: %v, %v; want %s", value, v, err, want)
		}
		if v, err := entryOf(t, "matvec-q8", "q5_K").Pick(&q); err != nil || v.Name != "v2_pf" {
			t.Errorf("MINFER_Q6K_PF=%s: q5_K goes to %v, %v", value, v, err)
		}
	}
}

// Units and blocks of the widths that real models have: a unit differs from format to format.
func TestUnitsOfRealWidths(t *testing.T) {
	for _, c := range []struct {
		format        string
		cols          int64
		units, blocks int64
	}{
		{"q6_K", 5120, 160, 20}, {"q6_K", 13824, 432, 54}, {"q6_K", 18944, 592, 74}, {"q6_K", 3584, 112, 14},
		{"q4_K", 5120, 80, 20}, {"q4_K", 13824, 216, 54},
	} {
		info, ok := format.ByName(c.format)
		if !ok || c.cols/int64(info.BlockElems) != c.blocks {
			t.Errorf("%s: %d columns are %d blocks, want %d", c.format, c.cols, c.cols/int64(info.BlockElems), c.blocks)
		}
		for _, v := range []string{"v1", "v2", "v2_pf"} {
			g := conform.Kernels["matvec_q8_"+c.format+"_"+v]
			if have := g.Axis("unit").Extent(&kernel.Query{Cols: c.cols}); have != c.units {
				t.Errorf("%s/%s: %d columns are %d units, want %d", c.format, v, c.cols, have, c.units)
			}
		}
	}
}
