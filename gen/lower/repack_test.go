package lower

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen/model"
)

// Every layout of every format is a bijection of the stored bits, and its moves do what its map of bits says.
func TestLayoutsMoveEveryBit(t *testing.T) {
	described := 0
	for _, f := range catalog(t).Formats {
		for _, s := range f.Layouts {
			if s.Format != f {
				described++
			}
			from, flaw := Repack(f, s.Format)
			if flaw != "" && s.Format != f {
				t.Errorf("%s %s: %s", f.Name, s.Weights, flaw)
				continue
			}
			p := Place(f, s.Weights)
			src := make([]byte, f.Bytes)
			for i := range src {
				src[i] = byte(rand.Uint32())
			}
			dst := make([]byte, p.BlockBytes)
			moved := 0
			for _, m := range p.Moves(f) {
				for i := range m.Count {
					for k := range m.Bits {
						a, b := m.From+8*i+k, m.To+8*i+k
						dst[b/8] |= src[a/8] >> (a % 8) & 1 << (b % 8)
						moved++
					}
				}
			}
			for _, x := range s.Format.Fields {
				for k := range x.Bits() {
					a, b := 8*x.AtBytes+k, 8*p.At[x]+k
					if s.Format != f {
						a = from[a]
					}
					if src[a/8]>>(a%8)&1 != dst[b/8]>>(b%8)&1 {
						t.Fatalf("%s %s: bit %d of field %s is not bit %d of the file", f.Name, s.Weights, k, x.Name, a)
					}
				}
			}
			if bits := fieldBits(f); moved != bits {
				t.Errorf("%s %s: %d bits moved, the file has %d", f.Name, s.Weights, moved, bits)
			}
		}
	}
	if described < 2 {
		t.Errorf("%d layouts are described by specs", described)
	}
}

func fieldBits(f *model.Format) (n int) {
	for _, x := range f.Fields {
		n += x.Bits()
	}
	return n
}

// A layout with one fact changed is refused.
func TestDamagedLayoutsAreRefused(t *testing.T) {
	for _, f := range catalog(t).Formats {
		for _, s := range f.Layouts {
			if s.Format == f {
				continue
			}
			seg := s.Format.Segs[0]
			for _, c := range seg.Codes {
				for i := range c.Planes {
					a := &c.Planes[i].Layout
					for k := range a.Stride {
						if seg.Shape[k].Radix == 1 {
							continue
						}
						for _, by := range []int{-a.Stride[k], 1, 8} {
							if by == 0 {
								continue
							}
							a.Stride[k] += by
							if _, flaw := try(f, s.Format); flaw == "" {
								t.Errorf("%s %s: stride of %s in code %s moved by %d, and nothing said", f.Name, s.Weights, seg.Shape[k].Name, c.Name, by)
							}
							a.Stride[k] -= by
						}
					}
				}
			}
			codes := seg.Codes
			for i := range codes {
				seg.Codes = slices.Delete(slices.Clone(codes), i, i+1)
				if _, flaw := Repack(f, s.Format); !strings.Contains(flaw, codes[i].Name) {
					t.Errorf("%s %s: without code %s: %q", f.Name, s.Weights, codes[i].Name, flaw)
				}
			}
			seg.Codes = codes
		}
	}
}

// try is Repack where an address past the block counts as a flaw: proofs of the layout itself come before it.
func try(f, s *model.Format) (from []int, flaw string) {
	defer func() {
		if recover() != nil {
			flaw = "past the block"
		}
	}()
	return Repack(f, s)
}
