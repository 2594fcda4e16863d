package cover

import (
	"strings"
	"testing"

	"github.com/minfer/minfer/gen/layout"
	"pgregory.net/rapid"
)

func matvec(round int) *layout.Geometry {
	return &layout.Geometry{
		Digits: []layout.PlacedDigit{
			{Name: "block", Place: layout.GridX}, {Name: "thread", Place: layout.Thread, Radix: 256}, {Name: "round", Place: layout.Loop, Radix: round}},
		Axes: []layout.Dealing{
			{Axis: "row", Elems: 1, Stride: []int{1, 0, 0}, Share: -1},
			{Axis: "unit", Elems: 32, Stride: []int{0, 1, 256}, Share: -1}},
	}
}

// The fault that began it all: 592 units on a kernel that covers 512.
func TestAuditNamesTheDroppedUnits(t *testing.T) {
	g := matvec(2)
	if flaws := Prove(g); len(flaws) > 0 {
		t.Fatal(flaws)
	}
	unit := g.Axis("unit")
	if c, bounded := g.Ceiling(unit); c != 512 || !bounded {
		t.Fatalf("ceiling %d bounded %v", c, bounded)
	}
	if got, want := g.Chain(unit), "256 threads * 2 rounds * 32 elements"; got != want {
		t.Errorf("chain %q, want %q", got, want)
	}
	dropped, repeated := Audit(g, unit, 592, 0)
	if dropped.String() != "512..591" || dropped.Len() != 80 || repeated != nil {
		t.Errorf("dropped %v repeated %v", dropped, repeated)
	}
	if dropped, _ = Audit(g, unit, 512, 0); dropped != nil {
		t.Errorf("dropped %v of 512", dropped)
	}
	if dropped, repeated = Audit(matvec(layout.Any), matvec(layout.Any).Axis("unit"), 592, 0); dropped != nil || repeated != nil {
		t.Errorf("the loop drops %v, repeats %v", dropped, repeated)
	}
}

func TestProveRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*layout.Geometry)
		want   string
	}{
		{"stride too large", func(g *layout.Geometry) { g.Axes[1].Stride[2] = 257 }, "unit: of each 257 indices, 256 is processed by no thread"},
		{"stride too small", func(g *layout.Geometry) { g.Axes[1].Stride[2] = 255 }, "reach past the period of 255"},
		{"thread stride", func(g *layout.Geometry) { g.Axes[1].Stride[1] = 2 }, "processed by no thread"},
		{"digit undealt", func(g *layout.Geometry) { g.Axes[0].Stride[0] = 0 }, "digit block is dealt to no axis"},
		{"digit shared by two axes", func(g *layout.Geometry) { g.Axes[0].Stride[1] = 1 }, "allowed: one axis"},
		{"two open digits", func(g *layout.Geometry) { g.Digits[1].Radix = layout.Any }, "has radix any, allowed there: a number"},
		{"negative stride", func(g *layout.Geometry) { g.Axes[1].Stride[1] = -1 }, "allowed: at least 1"},
		{"share without a loop", func(g *layout.Geometry) { g.Axes[0].Stride[0], g.Axes[0].Share = 0, 0 }, "allowed: a loop of radix any"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := matvec(layout.Any)
			c.change(g)
			var text []string
			for _, f := range Prove(g) {
				text = append(text, f.String())
			}
			if all := strings.Join(text, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("got %q, want %q in it", all, c.want)
			}
		})
	}
}

// Proof and witness agree: a geometry that is proved drops nothing at any extent up to its ceiling, and a geometry that
// is refused for its strides drops or repeats something at its period.
func TestProveAgreesWithAudit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.IntRange(1, 4).Draw(t, "digits")
		g := &layout.Geometry{Axes: []layout.Dealing{{Axis: "unit", Elems: 1, Share: -1}}}
		stride := 1
		for range digits {
			r := rapid.IntRange(1, 5).Draw(t, "radix")
			g.Digits = append(g.Digits, layout.PlacedDigit{Name: "d", Place: layout.Slot, Radix: r})
			g.Axes[0].Stride = append(g.Axes[0].Stride, stride+rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(t, "off"))
			stride *= r
		}
		for i, s := range g.Axes[0].Stride {
			if s < 1 {
				g.Axes[0].Stride[i] = 1
			}
		}
		if rapid.Bool().Draw(t, "open") {
			g.Digits = append(g.Digits, layout.PlacedDigit{Name: "o", Place: layout.Loop, Radix: layout.Any})
			g.Axes[0].Stride = append(g.Axes[0].Stride, stride)
		}
		d := &g.Axes[0]
		period, open := g.Period(d)
		clean := true
		for n := 1; n <= 2*period+1; n++ {
			dropped, repeated := Audit(g, d, n, 0)
			if open < 0 && n > period {
				if dropped == nil {
					t.Fatalf("extent %d is past the ceiling %d, yet nothing is dropped", n, period)
				}
				continue
			}
			clean = clean && dropped == nil && repeated == nil
		}
		if flaws := Prove(g); (len(flaws) == 0) != clean {
			t.Fatalf("proof says %v, witness says clean=%v: %+v", flaws, clean, g)
		}
	})
}

func TestSharesPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		extent, n := rapid.Int64Range(0, 1<<31-1).Draw(t, "extent"), rapid.Int64Range(1, 1<<20).Draw(t, "shares")
		b := rapid.Int64Range(0, n-1).Draw(t, "share")
		lo, hi := layout.ShareBounds(extent, b, n)
		next, _ := layout.ShareBounds(extent, b+1, n)
		first, _ := layout.ShareBounds(extent, 0, n)
		_, last := layout.ShareBounds(extent, n-1, n)
		if lo > hi || hi != next || first != 0 || last != extent {
			t.Fatalf("share %d of %d over %d is [%d, %d), the next begins at %d, all are [%d, %d)", b, n, extent, lo, hi, next, first, last)
		}
	})
}

// queued is an axis whose blocks turn to a queue after their runs, dealt by digits whose strides are off by some.
func queued(t *rapid.T, off func(*rapid.T) int) (*layout.Geometry, *layout.Dealing) {
	g := &layout.Geometry{Digits: []layout.PlacedDigit{{Name: "b", Place: layout.GridX}}}
	stride, strides := 1, []int{0}
	for range rapid.IntRange(1, 3).Draw(t, "digits") {
		r := rapid.IntRange(1, 5).Draw(t, "radix")
		g.Digits = append(g.Digits, layout.PlacedDigit{Name: "d", Place: layout.Slot, Radix: r})
		strides = append(strides, max(1, stride+off(t)))
		stride *= r
	}
	g.Digits = append(g.Digits, layout.PlacedDigit{Name: "o", Place: layout.Loop})
	g.Axes = []layout.Dealing{{Axis: "row", Elems: 1, Stride: append(strides, stride), Share: 0, Queue: true}}
	return g, &g.Axes[0]
}

// With a queue, digits that tile their period drop and repeat nothing, however many blocks share whatever extent.
func TestQueueDropsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, d := queued(t, func(*rapid.T) int { return 0 })
		if flaws := Prove(g); len(flaws) > 0 {
			t.Fatal(flaws)
		}
		extent, shares := rapid.IntRange(0, 2000).Draw(t, "extent"), rapid.IntRange(1, 40).Draw(t, "shares")
		if dropped, repeated := Audit(g, d, extent, shares); dropped != nil || repeated != nil {
			t.Fatalf("of %d in %d shares %v dropped, %v repeated", extent, shares, dropped, repeated)
		}
	})
}

// What the proof refuses, the queue drops or repeats: in its whole rounds the digits have all of their values.
func TestQueueFindsWhatIsDropped(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		g, d := queued(t, func(t *rapid.T) int { return rapid.SampledFrom([]int{0, 0, 1, -1}).Draw(t, "off") })
		period, _ := g.Period(d)
		shares := rapid.IntRange(1, 10).Draw(t, "shares")
		dropped, repeated := Audit(g, d, 20*shares*period, shares)
		flawed := len(Prove(g)) > 0
		if flawed {
			refused++
		}
		if clean := dropped == nil && repeated == nil; clean == flawed {
			t.Fatalf("proof says flawed=%t, witness dropped %v, repeated %v: %+v", flawed, dropped, repeated, g)
		}
	})
	if refused == 0 {
		t.Error("no digits were drawn that do not tile")
	}
	// One index of each round, in the blocks' own runs and in the queue.
	g := &layout.Geometry{
		Digits: []layout.PlacedDigit{{Name: "b", Place: layout.GridX}, {Name: "d", Place: layout.Slot, Radix: 3}, {Name: "o", Place: layout.Loop}},
		Axes:   []layout.Dealing{{Axis: "row", Elems: 1, Stride: []int{0, 1, 4}, Share: 0, Queue: true}},
	}
	if dropped, repeated := Audit(g, &g.Axes[0], 28, 2); dropped.String() != "3, 7, 11, 15 and 3 more" || dropped.Len() != 7 || repeated != nil {
		t.Errorf("dropped %v, repeated %v", dropped, repeated)
	}
}
