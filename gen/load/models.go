package load

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// models resolves the shapes of all model families, by family, then by size.
func (l *loader) models(set *spec.Set) (all []*model.ModelShape) {
	families := slices.Clone(set.Models)
	slices.SortFunc(families, func(a, b *spec.Models) int { return cmp.Compare(a.Models.Value, b.Models.Value) })
	seen := map[string]bool{}
	for _, f := range families {
		if f.Faulty {
			continue
		}
		if f.Models.Set() {
			l.fileName(f.Models)
		}
		first := len(all)
		eps, _ := strconv.ParseFloat(f.Eps.Value, 64) // its pattern has been checked
		for _, s := range f.Sizes {
			m := &model.ModelShape{Name: f.Models.Value + "-" + strings.ToLower(s.Size.Value), Source: strings.ReplaceAll(f.Source.Value, "*", s.Size.Value),
				Spec: f.At.File, Arch: f.Arch.Value, Vocab: f.Vocab.Value, HiddenSize: s.Hidden.Value, NumHiddenLayers: s.Layers.Value,
				NumAttentionHeads: s.Heads.Value, NumKeyValueHeads: s.KVHeads.Value, HeadDim: s.HeadDim.Value, IntermediateSize: s.FFN.Value,
				VocabSize: s.Vocab.Value, MaxPositionEmbeddings: f.Positions.Value, RopeTheta: f.Theta.Value, RMSNormEps: eps,
				RopeFactor: float64(s.RopeFactor.Or(0)), TieWordEmbeddings: s.Tied.Value}
			if seen[m.Name] {
				l.diags.Addf(s.Size.At, "model %s is described twice", m.Name)
			}
			seen[m.Name] = true
			if m.NumKeyValueHeads > 0 && m.NumAttentionHeads%m.NumKeyValueHeads != 0 {
				l.diags.Addf(s.Heads.At, "model %s: %d query heads are no multiple of %d key/value heads", m.Name, m.NumAttentionHeads, m.NumKeyValueHeads)
			}
			all = append(all, m)
		}
		slices.SortStableFunc(all[first:], func(a, b *model.ModelShape) int {
			return cmp.Compare(a.HiddenSize*a.NumHiddenLayers*a.IntermediateSize, b.HiddenSize*b.NumHiddenLayers*b.IntermediateSize)
		})
	}
	return all
}
