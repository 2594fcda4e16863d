package cpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/kernel"
)

// TestGates: which kernel each level, layout and number of tokens goes to, whatever this machine runs.
func TestGates(t *testing.T) {
	for _, c := range []struct {
		level  cpufeature.Level
		format string
		layout kernel.Layout
		tokens int64
		want   string
	}{
		{cpufeature.AVX512VNNI, "q4_K", tile.Layout, 1, "avx512vnni"},
		{cpufeature.AVX512VNNI, "q4_K", tile.Layout, 3, "avx512vnni"},
		{cpufeature.AVX512VNNI, "q4_K", tile.Layout, 4, "avx512vnni_t4"},
		{cpufeature.AVX512VNNI, "q4_K", tile.Layout, 16, "avx512vnni_t16"},
		{cpufeature.AVX512VNNI, "q4_K", tile.Layout, 20, "avx512vnni_t4"},
		{cpufeature.AVX512, "q4_K", tile.Layout, 32, "avx512_t16"},
		{cpufeature.AVX2VNNI, "q4_K", tile.Layout, 16, "avx2vnni_t4"},
		{cpufeature.AVX2, "q4_K", tile.Layout, 1, "avx2"},
		{cpufeature.Portable, "q4_K", tile.Layout, 1, ""},
		{cpufeature.Portable, "q4_K", "file", 1, "portable"},
		{cpufeature.AVX512VNNI, "q4_K", "file", 16, "portable"},
		{cpufeature.AVX512VNNI, "q4_K", "padded", 1, ""},
		{cpufeature.AVX512VBMI, "q4_K", tile.Layout, 1, "avx512vnni"},
		{cpufeature.AVX512VBMI, "q4_K", "rows32index", 1, ""},
		{cpufeature.AVX512VBMI, "iq2_xs", "rows32index", 1, "avx512vbmi"},
		{cpufeature.AVX512VBMI, "iq1_s", "rows32index", 16, "avx512vbmi_t16"},
		{cpufeature.AVX512VNNI, "iq2_xs", "rows32index", 1, ""},
		{cpufeature.AVX512VNNI, "iq2_xs", tile.Layout, 1, "avx512vnni"},
	} {
		q := kernel.Query{Rows: 100, Cols: 1536, Tokens: c.tokens, Weights: c.layout, Features: features(c.level)}
		got := ""
		if v := gateOf(c.format, device.Q8).Choose(&q, nil); v != nil {
			got = v.Name
		}
		if got != c.want {
			t.Errorf("%s, %s, %s, %d tokens: %q, want %q", c.level, c.format, c.layout, c.tokens, got, c.want)
		}
	}
	for _, off := range []bool{false, true} {
		q := kernel.Query{Rows: 1, Cols: 1536, Tokens: 1, Weights: tile.Layout, Features: features(cpufeature.AVX2), Off: kernel.Switches{"MINFER_CPU_INTERLEAVE": off}}
		if v := gateOf("q4_K", device.Q8).Choose(&q, nil); (v == nil) != off {
			t.Errorf("switched off %v: %v", off, v)
		}
	}
	q := kernel.Query{Rows: 1, Cols: 1500, Tokens: 1, Weights: tile.Layout, Features: features(cpufeature.AVX512)}
	if _, err := gateOf("q4_K", device.Q8).Pick(&q); err == nil || !strings.Contains(err.Error(), "avx512: cols 1500 breaks cols % 256 == 0") {
		t.Errorf("1500 columns: %v", err)
	}
}

// TestNothingBeyondALevel: no gate lets a level run code that it has no instructions for.
func TestNothingBeyondALevel(t *testing.T) {
	for _, e := range gate.CPU {
		for l := cpufeature.Portable; l <= cpufeature.AVX512VBMI; l++ {
			for _, layout := range append([]string{"file"}, tile.Layouts...) {
				for _, tokens := range []int64{1, 2, 4, 16} {
					q := kernel.Query{Rows: 64, Cols: 2560, Tokens: tokens, Weights: kernel.Layout(layout), Features: features(l)}
					v := e.Choose(&q, nil)
					if v == nil {
						continue
					}
					for _, b := range v.Bounds {
						if b.Kind != kernel.Feature {
							continue
						}
						if need, err := cpufeature.Parse(b.Feature); err != nil || !l.Has(need) {
							t.Errorf("%s: %s goes to %s", e.Format, l, v)
						}
					}
				}
			}
		}
	}
}

// TestRoutes: routes name the kernels, and say why vector code is not there.
func TestRoutes(t *testing.T) {
	m := archtest.Small("qwen2")
	m.Quantize = format.Q4_0
	find := func(t *testing.T) device.Route {
		f, err := m.File()
		if err != nil {
			t.Fatal(err)
		}
		g, err := arch.Build(f)
		if err != nil {
			t.Fatal(err)
		}
		model, err := Device{}.Load(context.Background(), g, device.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		routes := model.Routes()
		i := slices.IndexFunc(routes, func(r device.Route) bool { return r.Weight == "blk.0.ffn_up.weight" })
		if i < 0 {
			t.Fatalf("no route of ffn_up in %v", routes)
		}
		return routes[i]
	}
	for _, l := range cpufeature.Levels() {
		t.Setenv(cpufeature.Switch, l.String())
		r := find(t)
		want := "tile-q8/q4_0/" + min(l, cpufeature.AVX512VNNI).String() // what is beyond is for codebooks
		if r.Kernel != want || r.Class != "q8" || (l != cpufeature.Portable) != strings.Contains(r.Why, "tiles of 32") {
			t.Errorf("%s: %+v", l, r)
		}
	}
	t.Setenv(cpufeature.Switch, "")
	t.Setenv("MINFER_CPU_INTERLEAVE", "0")
	if r := find(t); r.Kernel != "tile-q8/q4_0/portable" || len(cpufeature.Levels()) > 1 && !strings.Contains(r.Why, "switched off by MINFER_CPU_INTERLEAVE=0") {
		t.Errorf("switched off: %+v", r)
	}
}

// TestReady: weights become ready in order, all of them, whatever the number of threads; a load that is given up says so.
func TestReady(t *testing.T) {
	m := archtest.Small("llama")
	m.Quantize, m.FF = format.Q8_0, 1024
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	var released atomic.Int64
	g.Release = func(data []byte) { released.Add(int64(len(data))) }
	for _, threads := range []int{1, 3} {
		var seen []int64
		released.Store(0)
		model, err := Device{}.Load(context.Background(), g, device.LoadOptions{Threads: threads, Progress: func(done, total int64) {
			if total != g.WeightBytes() {
				t.Errorf("total %d, want %d", total, g.WeightBytes())
			}
			seen = append(seen, done)
		}})
		if err != nil {
			t.Fatal(err)
		}
		model.Close()
		if len(seen) == 0 || !slices.IsSorted(seen) || seen[len(seen)-1] != g.WeightBytes() {
			t.Errorf("%d threads: progress %v of %d", threads, seen, g.WeightBytes())
		}
		if level, err := cpufeature.Active(); err == nil && level != cpufeature.Portable && released.Load() == 0 {
			t.Error("nothing of the file is let go")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (Device{}).Load(ctx, g, device.LoadOptions{}); err != context.Canceled {
		t.Errorf("a load that is given up: %v", err)
	}
}

// TestPanels: every row of a batch has a place of its own, and panels are as large as kernels take them.
func TestPanels(t *testing.T) {
	p := panels{sizes: []int{16, 4, 1}}
	const units = 3
	for rows := 1; rows < 60; rows++ {
		end, taken := 0, map[string]bool{}
		for row := range rows {
			offset, tokens, token := p.at(units, rows, row)
			key := fmt.Sprint(offset, token)
			if taken[key] || token >= tokens || tokens > rows {
				t.Fatalf("row %d of %d: place %s of %d tokens", row, rows, key, tokens)
			}
			taken[key] = true
			if token == 0 {
				if offset != end {
					t.Fatalf("row %d of %d: panel at %d, the one before ends at %d", row, rows, offset, end)
				}
				end += units * tile.PanelBytes(tokens)
			}
		}
		if most := rows * units * tile.PanelBytes(1); end > most {
			t.Errorf("%d rows take %d bytes, more than %d", rows, end, most)
		}
	}
}
