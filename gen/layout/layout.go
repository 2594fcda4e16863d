// Package layout is the one algebra of this project: it maps mixed-radix digits to an integer,
//
//	value(d) = base + sum over i of stride[i] * d[i],   0 <= d[i] < radix[i].
//
// A weight format uses it to turn the digits of an element's index into a bit offset; a kernel
// geometry uses it to turn block, warp, lane, round and slot into a row and a unit of that row.
// The package is pure arithmetic: it imports nothing of the project and does no I/O.
package layout

import (
	"fmt"
	"strings"
)

// Digit is one position of a mixed-radix number.
type Digit struct {
	Name  string
	Radix int // number of values, at least 1
}

// Shape is the digits of an index, most significant first.
type Shape []Digit

// Size is the number of indices, the product of the radices.
func (s Shape) Size() int {
	n := 1
	for _, d := range s {
		n *= d.Radix
	}
	return n
}

// Index reports the position of the digit called name, or -1.
func (s Shape) Index(name string) int {
	for i, d := range s {
		if d.Name == name {
			return i
		}
	}
	return -1
}

// Digits splits an index into its digits.
func (s Shape) Digits(index int) []int {
	d := make([]int, len(s))
	for i := len(s) - 1; i >= 0; i-- {
		d[i] = index % s[i].Radix
		index /= s[i].Radix
	}
	return d
}

// Weight is how much index grows when digit i grows by one: the product of the radices after it.
func (s Shape) Weight(i int) int { return s[i+1:].Size() }

// Affine is base + sum(stride * digit) over a Shape; Stride is parallel to it.
type Affine struct {
	Base   int
	Stride []int
}

// At is the value for the given digits.
func (a Affine) At(digits []int) int {
	v := a.Base
	for i, s := range a.Stride {
		v += s * digits[i]
	}
	return v
}

// Range is the least and the greatest value over the whole shape.
func (a Affine) Range(s Shape) (lo, hi int) {
	lo, hi = a.Base, a.Base
	for i, d := range s {
		if span := a.Stride[i] * (d.Radix - 1); span < 0 {
			lo += span
		} else {
			hi += span
		}
	}
	return lo, hi
}

// Uses reports whether the value depends on digit i.
func (a Affine) Uses(s Shape, i int) bool { return a.Stride[i] != 0 && s[i].Radix > 1 }

// Divide splits the value into item*quotient + remainder with 0 <= remainder < item, both affine.
// It succeeds when the remainders of base and strides never carry into the quotient, which is what lets
// generated code use constant byte strides and constant shifts.
func (a Affine) Divide(s Shape, item int) (quotient, remainder Affine, ok bool) {
	quotient = Affine{Base: floorDiv(a.Base, item), Stride: make([]int, len(a.Stride))}
	remainder = Affine{Base: a.Base - item*quotient.Base, Stride: make([]int, len(a.Stride))}
	for i, v := range a.Stride {
		quotient.Stride[i] = floorDiv(v, item)
		remainder.Stride[i] = v - item*quotient.Stride[i]
	}
	_, hi := remainder.Range(s)
	return quotient, remainder, hi < item
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Notation writes the layout as (radix,..):(stride,..)+base, most significant mode first, with
// neighbouring modes merged where they form one.
func (a Affine) Notation(s Shape) string {
	var radix, stride []int
	for i := len(s) - 1; i >= 0; i-- {
		if s[i].Radix == 1 {
			continue
		}
		if n := len(radix) - 1; n >= 0 && a.Stride[i] == stride[n]*radix[n] {
			radix[n] *= s[i].Radix
			continue
		}
		radix, stride = append(radix, s[i].Radix), append(stride, a.Stride[i])
	}
	text := "(" + joinReversed(radix) + "):(" + joinReversed(stride) + ")"
	if a.Base != 0 {
		text += fmt.Sprintf("+%d", a.Base)
	}
	return text
}

func joinReversed(v []int) string {
	parts := make([]string, len(v))
	for i, x := range v {
		parts[len(v)-1-i] = fmt.Sprint(x)
	}
	return strings.Join(parts, ",")
}
