package op

// Slot is a buffer that serves several Values whose lifetimes do not overlap.
type Slot struct {
	Width int // the widest of its Values
	Rows  Rows
}

// Slots assigns a buffer to each Value: of[v] is the slot of Value v. A slot is free for another Value after the last
// operation that reads its Value, so an operation never writes a buffer that it also reads. The logits keep theirs.
// The graph must be valid.
func (g *Graph) Slots() (slots []Slot, of []int) { return g.SlotsHolding(nil) }

// SlotsHolding is Slots where some Values are read later than the list says: until holds the index of the last operation at which
// one is read, for a device that runs several operations as one, at the place of the last of them.
func (g *Graph) SlotsHolding(until map[Value]int) (slots []Slot, of []int) {
	last := make([]int, len(g.Values)) // index of the last operation that touches the Value
	for i, o := range g.Ops {
		for _, v := range o.Reads() {
			last[v] = i
		}
		if v, ok := o.Writes(); ok {
			last[v] = max(last[v], i)
		}
	}
	for v, i := range until {
		last[v] = max(last[v], i)
	}
	last[g.Logits] = len(g.Ops)
	of = make([]int, len(g.Values))
	busyUntil := []int{}
	for i, o := range g.Ops {
		v, ok := o.Writes()
		if !ok {
			continue
		}
		info := g.Values[v]
		best := -1 // the free slot that has to grow least, then the narrowest
		for s := range slots {
			if slots[s].Rows != info.Rows || busyUntil[s] >= i {
				continue
			}
			if best < 0 || cost(slots[s], info) < cost(slots[best], info) {
				best = s
			}
		}
		if best < 0 {
			slots, busyUntil = append(slots, Slot{Rows: info.Rows}), append(busyUntil, 0)
			best = len(slots) - 1
		}
		slots[best].Width = max(slots[best].Width, info.Width)
		busyUntil[best], of[v] = last[v], best
	}
	return slots, of
}

// cost orders free slots: waste where the slot is wide enough, growth (counted double) where it is not.
func cost(s Slot, v ValueInfo) int {
	if s.Width >= v.Width {
		return s.Width - v.Width
	}
	return 2 * (v.Width - s.Width)
}
