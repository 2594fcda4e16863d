package emu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"

	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// attention is one decode step of attention.
type attention struct {
	kvHeads, group, headDim, dims int
	adjacent, norm                bool
	position, shares              int
}

// The launch that stands between the projections of attention, against the same in float64: outputs, the appended key and value, the
// coverage witness, and that what it counts arrivals with is zero again.
func TestAttendStep(t *testing.T) {
	d := driver(t)
	for _, f := range []string{"f16", "f32"} {
		v := entry(t, "attend-step", f).Steps[0].Variant
		if err := gpu.LoadVariants(d, []*kernel.Variant{v}); err != nil {
			t.Fatal(err)
		}
		for _, a := range []attention{
			{2, 7, 128, 128, false, false, 0, 4},
			{1, 8, 128, 128, false, true, 5, 1},
			{3, 4, 64, 64, true, false, 63, 2},
			{1, 1, 128, 64, false, false, 64, 3},
			{2, 2, 80, 80, true, true, 200, 8},
			{1, 5, 128, 128, false, true, 511, 3},
			{1, 3, 8, 2, false, false, 130, 33},
			{2, 1, 96, 48, false, false, 127, 1},
		} {
			t.Run(fmt.Sprintf("%s/%+v", f, a), func(t *testing.T) { checkAttendStep(t, d, entry(t, "attend-step", f), f, a) })
		}
	}
}

func checkAttendStep(t *testing.T, d *emu.Driver, e *kernel.Entry, f string, a attention) {
	r := rand.New(rand.NewPCG(uint64(a.position), uint64(a.headDim)))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	const eps, context = 1e-6, 640
	heads, row := a.kvHeads*a.group, a.kvHeads*a.headDim
	scale := float32(1 / math.Sqrt(float64(a.headDim)))
	q, k, val := random(heads*a.headDim), random(row), random(row)
	qNorm, kNorm := random(a.headDim), random(a.headDim)
	keys, values := random(context*row), random(context*row)
	store := func(x []float32) []byte { // the cache's format; the numbers become those that it holds
		if f == "f32" {
			return floats(x)
		}
		b := make([]byte, 2*len(x))
		for i := range x {
			h := float16.Fromfloat32(x[i])
			binary.LittleEndian.PutUint16(b[2*i:], h.Bits())
			x[i] = h.Float32()
		}
		return b
	}
	keyBytes, valueBytes := store(keys), store(values)
	pairs := a.dims / 2
	sines, cosines := make([]float32, context*pairs), make([]float32, context*pairs)
	for i := range sines {
		angle := float64(i/pairs) * math.Pow(10000, -float64(i%pairs)/float64(pairs))
		sines[i], cosines[i] = float32(math.Sin(angle)), float32(math.Cos(angle))
	}
	out := make([]float32, heads*a.headDim)
	for i := range out {
		out[i] = float32(math.NaN())
	}
	number := func(n int) gpu.Arg { return gpu.I32(int32(n)) }
	flag := map[bool]int{true: 1}
	args := map[string]gpu.Arg{
		"q": gpu.PointerArg(put(t, d, floats(q))), "k": gpu.PointerArg(put(t, d, floats(k))), "v": gpu.PointerArg(put(t, d, floats(val))),
		"q_norm": gpu.PointerArg(0), "k_norm": gpu.PointerArg(0),
		"keys": gpu.PointerArg(put(t, d, keyBytes)), "values": gpu.PointerArg(put(t, d, valueBytes)),
		"positions": gpu.PointerArg(put(t, d, binary.LittleEndian.AppendUint32(nil, uint32(a.position)))),
		"sines":     gpu.PointerArg(put(t, d, floats(sines))), "cosines": gpu.PointerArg(put(t, d, floats(cosines))),
		"partial":  gpu.PointerArg(put(t, d, make([]byte, 4*heads*a.shares*(a.headDim+2)))),
		"arrivals": gpu.PointerArg(put(t, d, make([]byte, 4*a.kvHeads))), "out": gpu.PointerArg(put(t, d, floats(out))),
		"kv_heads": number(a.kvHeads), "group": number(a.group), "head_dim": number(a.headDim), "dims": number(a.dims), "adjacent": number(flag[a.adjacent]),
		"scale": gpu.F32(scale), "eps": gpu.F32(eps),
	}
	if a.norm {
		args["q_norm"], args["k_norm"] = gpu.PointerArg(put(t, d, floats(qNorm))), gpu.PointerArg(put(t, d, floats(kNorm)))
	}
	query := kernel.Query{Tokens: 1, KVHeads: int64(a.kvHeads), Group: int64(a.group), HeadDim: int64(a.headDim), Context: context, Shares: int64(a.shares),
		Weights: "file", Arch: 90, SharedBytes: int64(d.Info().SharedOptInBytes)}
	v := e.Choose(&query, nil)
	if v == nil {
		_, err := e.Pick(&query)
		t.Fatal(err)
	}
	l := gpu.Launch{Kernel: v.Symbol, Grid: v.Grid(&query), Block: [3]uint32{v.Threads, 1, 1}, SharedBytes: v.Shared(&query), Dependent: v.Awaits}
	for _, x := range v.Args {
		l.Args = append(l.Args, args[x.Name])
	}
	if err := d.StartWitness(gpu.CoverSpace{Rows: int64(a.kvHeads), Units: int64(a.position + 1), Tokens: 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.Launch(l); err != nil {
		t.Fatal(err)
	}
	cover, err := d.StopWitness()
	if err == nil {
		err = cover.Exact()
	}
	if err != nil {
		t.Fatal(err)
	}

	// The same in float64.
	prepared := func(x, norm []float32) []float64 {
		y := make([]float64, a.headDim)
		factor := 1.0
		if a.norm {
			for _, v := range x {
				factor += float64(v) * float64(v)
			}
			factor = 1 / math.Sqrt((factor-1)/float64(a.headDim)+eps)
		}
		for i := range y {
			if y[i] = float64(x[i]) * factor; a.norm {
				y[i] *= float64(norm[i])
			}
		}
		for p := range pairs {
			i, j := p, p+pairs
			if a.adjacent {
				i, j = 2*p, 2*p+1
			}
			s, c := float64(sines[a.position*pairs+p]), float64(cosines[a.position*pairs+p])
			y[i], y[j] = y[i]*c-y[j]*s, y[i]*s+y[j]*c
		}
		return y
	}
	near := func(what string, have float32, want, allowed float64) {
		t.Helper()
		if !(math.Abs(float64(have)-want) <= allowed) {
			t.Fatalf("%s is %g, exact %g", what, have, want)
		}
	}
	at := a.position * row
	elem := len(keyBytes) / len(keys)
	load := func(p gpu.Pointer, n int) []float32 {
		b := make([]byte, n*elem)
		if err := d.Download(b, p); err != nil {
			t.Fatal(err)
		}
		x := make([]float32, n)
		for i := range x {
			if elem == 2 {
				x[i] = float16.Frombits(binary.LittleEndian.Uint16(b[2*i:])).Float32()
			} else {
				x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
			}
		}
		return x
	}
	nowKeys, nowValues := load(gpu.Pointer(args["keys"].Bits), context*row), load(gpu.Pointer(args["values"].Bits), context*row)
	for h := range a.kvHeads {
		want := prepared(k[h*a.headDim:(h+1)*a.headDim], kNorm)
		for e := range a.headDim {
			near("key", nowKeys[at+h*a.headDim+e], want[e], 0x1p-10*math.Abs(want[e])+1e-5)
			near("value", nowValues[at+h*a.headDim+e], float64(val[h*a.headDim+e]), 0x1p-10*math.Abs(float64(val[h*a.headDim+e])))
		}
	}
	for i := range keys {
		if i < at || i >= at+row {
			if nowKeys[i] != keys[i] || nowValues[i] != values[i] {
				t.Fatalf("position %d of the cache changed", i/row)
			}
		}
	}
	have := read(t, d, gpu.Pointer(args["out"].Bits), len(out))
	for h := range heads {
		qh := prepared(q[h*a.headDim:(h+1)*a.headDim], qNorm)
		var total float64
		sum := make([]float64, a.headDim)
		for j := range a.position + 1 {
			from := j*row + h/a.group*a.headDim
			s := 0.0
			for e := range qh {
				s += qh[e] * float64(scale) * float64(nowKeys[from+e])
			}
			p := math.Exp(s)
			total += p
			for e := range sum {
				sum[e] += p * float64(nowValues[from+e])
			}
		}
		for e := range sum {
			near(fmt.Sprintf("element %d of head %d", e, h), have[h*a.headDim+e], sum[e]/total, 2e-5)
		}
	}
	for i, n := range read(t, d, gpu.Pointer(args["arrivals"].Bits), a.kvHeads) {
		if math.Float32bits(n) != 0 {
			t.Errorf("head %d still counts %d arrivals", i, math.Float32bits(n))
		}
	}
	for _, x := range args {
		if x.Kind == gpu.ArgPointer {
			d.Free(gpu.Pointer(x.Bits))
		}
	}
}
