package model

import "slices"

// BodyOption is an option that a template declares: a number that it looks at when it is printed.
type BodyOption struct {
	Name   string
	Values []int  // that it may have; 0 is what it is when nobody says otherwise
	Closed string // a digit that must have a radix of its own where the option is not 0
}

// bodies lists the options of each template that has any. The emitter refuses a template that asks for another.
var bodies = map[string][]BodyOption{
	"matmul_mma": {
		{Name: "ahead", Values: []int{1, 2, 4, 5}}, // so many units of a helper are on their way at a time
	},
	"matvec_q8": {
		{Name: "hoist", Values: []int{0, 1}, Closed: "round"}, // the loads of all rounds come first
	},
	"matvec_ring": {
		{Name: "quantize", Values: []int{0, 1}}, // blocks round the activations
		{Name: "parts", Values: []int{0, 3}},    // matrices, one after the other; 0 is one that is called w
		{Name: "pairs", Values: []int{0, 1}},    // a row of each of two matrices at a time
	},
}

// BodyOptions is the options of a template.
func BodyOptions(template string) []BodyOption { return bodies[template] }

// OptionOf is an option of a template, or nil.
func OptionOf(template, name string) *BodyOption {
	all := bodies[template]
	if i := slices.IndexFunc(all, func(o BodyOption) bool { return o.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}
