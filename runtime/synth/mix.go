package synth

import (
	"slices"

	"github.com/minfer/minfer/generated/format"
)

// role is what a matrix does, as far as the choice of its format goes.
type role int

const (
	other role = iota
	output
	tokenEmbd
	attnQ
	attnK
	attnV
	attnOutput
	ffnGate
	ffnUp
	ffnDown
)

// traits is what the choice of formats depends on beside the matrix itself.
type traits struct {
	layers   int
	gqa      int  // query heads per key/value head
	tied     bool // the token embeddings are the output matrix too
	seventyB bool // what llama.cpp takes for a 70B: llama or qwen2 of 80 layers
}

// when says in which layers a rule holds.
type when func(t traits, layer int) bool

func first(fraction int) when {
	return func(t traits, layer int) bool { return layer < t.layers/fraction }
}
func below(n int) when { return func(_ traits, layer int) bool { return layer < n } }
func grouped(t traits, _ int) bool {
	return t.gqa >= 4
}

// middle: all but the first and the last eighth.
func middle(t traits, layer int) bool { return layer >= t.layers/8 && layer < 7*t.layers/8 }

// sensitive: the first and the last eighth, and every third layer between.
func sensitive(t traits, layer int) bool {
	return layer < t.layers/8 || layer >= 7*t.layers/8 || (layer-t.layers/8)%3 == 2
}

// rule gives the matrices of a role another format than the mix's base, in all layers or in some.
type rule struct {
	role role
	in   when // nil: in all layers
	typ  format.Type
}

// Mix is a file type: a base format, and the matrices that get another. The first rule that holds counts. The mixes are those
// that llama.cpp's quantize makes of a model without experts; those that it makes with an importance matrix alone follow what it
// does with one.
type Mix struct {
	Name     string      // "q4_K_M"
	FileType uint32      // general.file_type
	Base     format.Type // of matrices that no rule names
	output   format.Type // of the output matrix, or of the token embeddings that stand for it
	embd     format.Type // of the token embeddings that do not
	noBumps  bool        // the 70B rule does not hold
	rules    []rule
}

// Plain reports whether all matrices have the base format, unquantized.
func (m Mix) Plain() bool {
	info, _ := format.Lookup(m.Base)
	return info.Plain()
}

var mixes = []Mix{
	{"f32", 0, format.F32, format.F32, format.F32, false, nil},
	{"f16", 1, format.F16, format.F16, format.F16, false, nil},
	{"bf16", 32, format.BF16, format.BF16, format.BF16, false, nil},
	{"q4_0", 2, format.Q4_0, format.Q6K, format.Q4_0, false, nil},
	{"q4_1", 3, format.Q4_1, format.Q6K, format.Q4_1, false, nil},
	{"q5_0", 8, format.Q5_0, format.Q6K, format.Q5_0, false, nil},
	{"q5_1", 9, format.Q5_1, format.Q6K, format.Q5_1, false, nil},
	{"q8_0", 7, format.Q8_0, format.Q8_0, format.Q8_0, false, nil},
	{"q2_K", 10, format.Q2K, format.Q6K, format.Q2K, false, []rule{
		{attnV, grouped, format.Q4K}, {attnV, nil, format.Q3K}, {ffnDown, nil, format.Q3K}, {attnOutput, nil, format.Q3K}}},
	{"q2_K_S", 21, format.Q2K, format.Q6K, format.Q2K, false, []rule{
		{attnV, grouped, format.Q4K}, {ffnDown, first(8), format.Q4K}}},
	{"q3_K_S", 11, format.Q3K, format.Q6K, format.Q3K, false, nil},
	{"q3_K_M", 12, format.Q3K, format.Q6K, format.Q3K, false, []rule{
		{attnV, below(2), format.Q5K}, {attnV, nil, format.Q4K}, {ffnDown, first(16), format.Q5K}, {ffnDown, nil, format.Q4K}, {attnOutput, nil, format.Q4K}}},
	{"q3_K_L", 13, format.Q3K, format.Q6K, format.Q3K, false, []rule{
		{attnV, nil, format.Q5K}, {ffnDown, nil, format.Q5K}, {attnOutput, nil, format.Q5K}}},
	{"q4_K_S", 14, format.Q4K, format.Q6K, format.Q4K, false, []rule{
		{attnV, below(4), format.Q5K}, {ffnDown, first(8), format.Q5K}}},
	{"q4_K_M", 15, format.Q4K, format.Q6K, format.Q4K, false, []rule{
		{attnV, sensitive, format.Q6K}, {ffnDown, sensitive, format.Q6K}}},
	{"q5_K_S", 16, format.Q5K, format.Q6K, format.Q5K, false, nil},
	{"q5_K_M", 17, format.Q5K, format.Q6K, format.Q5K, false, []rule{
		{attnV, sensitive, format.Q6K}, {ffnDown, sensitive, format.Q6K}}},
	{"q6_K", 18, format.Q6K, format.Q6K, format.Q6K, false, nil},
	{"iq1_s", 24, format.IQ1S, format.Q5K, format.Q2K, true, []rule{
		{attnV, grouped, format.Q4K}, {attnV, nil, format.Q2K}, {ffnDown, first(8), format.Q2K}, {attnOutput, nil, format.IQ2XXS}}},
	{"iq1_m", 31, format.IQ1M, format.Q5K, format.Q2K, true, []rule{
		{attnV, grouped, format.Q4K}, {attnV, nil, format.Q2K}, {ffnDown, first(8), format.Q2K}, {attnOutput, nil, format.IQ2XXS}}},
	{"iq2_xxs", 19, format.IQ2XXS, format.Q5K, format.Q2K, true, []rule{
		{attnV, grouped, format.Q4K}, {attnV, nil, format.Q2K}, {ffnDown, first(8), format.Q2K}}},
	{"iq2_xs", 20, format.IQ2XS, format.Q5K, format.Q2K, true, []rule{
		{attnV, grouped, format.Q4K}, {attnV, nil, format.Q2K}, {ffnDown, first(8), format.Q2K}}},
	{"iq2_s", 28, format.IQ2XS, format.Q5K, format.IQ3S, true, []rule{
		{attnV, grouped, format.Q4K}, {attnV, nil, format.IQ3S}, {ffnDown, first(8), format.IQ3S}, {attnOutput, nil, format.IQ3S}}},
	{"iq2_m", 29, format.IQ2S, format.Q5K, format.IQ3S, true, []rule{
		{attnV, grouped, format.Q4K}, {attnV, nil, format.IQ3S}, {ffnDown, first(8), format.IQ3S}, {attnOutput, nil, format.IQ3S}}},
	{"iq3_xxs", 23, format.IQ3XXS, format.Q5K, format.IQ3S, false, []rule{
		{attnV, grouped, format.Q4K}, {attnQ, nil, format.IQ2S}, {attnK, nil, format.IQ2S}, {attnOutput, nil, format.IQ3S}}},
	{"iq3_xs", 22, format.IQ3S, format.Q6K, format.IQ3S, false, []rule{
		{attnV, grouped, format.Q4K}, {attnQ, nil, format.IQ3XXS}, {attnK, nil, format.IQ3XXS},
		{ffnGate, middle, format.IQ3XXS}, {ffnUp, middle, format.IQ3XXS}}},
	{"iq3_s", 26, format.IQ3S, format.Q6K, format.IQ3S, false, []rule{
		{attnV, grouped, format.Q4K}}},
	{"iq3_m", 27, format.IQ3S, format.Q6K, format.IQ3S, false, []rule{
		{attnV, nil, format.Q4K}, {ffnDown, first(8), format.Q4K}, {attnOutput, nil, format.Q4K}}},
	{"iq4_nl", 25, format.IQ4NL, format.Q6K, format.IQ4NL, false, []rule{
		{attnV, grouped, format.Q5K}, {ffnDown, first(8), format.Q5K}}},
	{"iq4_xs", 30, format.IQ4XS, format.Q6K, format.IQ4XS, false, []rule{
		{attnV, grouped, format.Q5K}, {ffnDown, first(8), format.Q5K}}},
	{"tq1_0", 36, format.TQ1_0, format.Q6K, format.Q4K, false, nil},
	{"tq2_0", 37, format.TQ2_0, format.Q6K, format.Q4K, false, nil},
}

// fallbacks are the formats for rows that are not a multiple of a block of 256 elements.
var fallbacks = map[format.Type]format.Type{
	format.IQ1S: format.IQ4NL, format.IQ1M: format.IQ4NL, format.IQ2XXS: format.IQ4NL, format.IQ2XS: format.IQ4NL, format.IQ2S: format.IQ4NL,
	format.IQ3XXS: format.IQ4NL, format.IQ3S: format.IQ4NL, format.IQ4XS: format.IQ4NL,
	format.Q2K: format.Q4_0, format.Q3K: format.Q4_0, format.TQ1_0: format.Q4_0, format.TQ2_0: format.Q4_0,
	format.Q4K: format.Q5_0, format.Q5K: format.Q5_1, format.Q6K: format.Q8_0,
}

// Mixes lists the file types.
func Mixes() []Mix { return slices.Clone(mixes) }

// choose gives the format of a matrix with rows of cols elements.
func (m Mix) choose(t traits, r role, layer, cols int) format.Type {
	if m.Plain() {
		return m.Base
	}
	whole := func(typ format.Type) bool {
		info, _ := format.Lookup(typ)
		return cols%info.BlockElems == 0
	}
	typ := m.Base
	switch {
	case r == output || r == tokenEmbd && t.tied:
		typ = m.output
		if !whole(m.Base) {
			typ = format.Q8_0
		}
	case r == tokenEmbd:
		typ = m.embd
	default:
		for _, rule := range m.rules {
			if rule.role == r && (rule.in == nil || rule.in(t, layer)) {
				typ = rule.typ
				break
			}
		}
		if r == attnV && t.seventyB && !m.noBumps && (typ == format.Q3K || typ == format.Q4K) {
			typ = format.Q5K // eight heads share the matrix: it is small, and worth more bits
		}
	}
	if !whole(typ) {
		typ = fallbacks[typ]
		if !whole(typ) {
			typ = format.F16
		}
	}
	return typ
}
