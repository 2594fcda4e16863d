package conform

import (
	"errors"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// Kernels that are not those of the gates are refused by name before anything is launched.
func TestStaleKernels(t *testing.T) {
	open(t)
	s := subjectOf(t, "matvec-q8/q6_K/v2_pf")
	const ceiling = "constexpr long long matvec_q8_q6_K_v2_pf_MaxCols = 16384;"
	const proof = "static_assert(256ll * 2ll * 32ll == matvec_q8_q6_K_v2_pf_MaxCols, \"coverage: 256 threads * 2 rounds * 32 elements\");"
	for _, c := range []struct {
		name, old, new string
		want           []string
	}{
		{"a ceiling raised without its proof", ceiling, strings.Replace(ceiling, "16384", "18944", 1), []string{"matvec_q8_q6_K.cu", "coverage: 256 threads * 2 rounds * 32 elements"}},
		{"a ceiling raised, its proof gone", ceiling + "\n" + proof, strings.Replace(ceiling, "16384", "18944", 1),
			[]string{"kernel matvec_q8_q6_K_v2_pf was built with 18944 where its gate has cols <= 16384 (coverage: 256 threads * 2 rounds * 32 elements)", "generate both anew"}},
		{"a bound left out", ", matvec_q8_q6_K_v2_pf_MaxCols});", "});", []string{"kernel matvec_q8_q6_K_v2_pf exports 8 bounds, its gate has 9"}},
		{"blocks of another size", "constexpr long long matvec_q8_q6_K_v2_pf_BlockBytes = 224;", "constexpr long long matvec_q8_q6_K_v2_pf_BlockBytes = 210;", []string{"matvec_q8_q6_K_v2_pf reads blocks of another size"}},
		{"no bounds", "MINFER_BOUNDS(matvec_q8_q6_K_v2_pf, ", "MINFER_BOUNDS(another, ", []string{"matvec_q8_q6_K_v2_pf"}},
		{"no kernel", "MINFER_KERNEL(matvec_q8_q6_K_v2_pf, ", "MINFER_KERNEL(another, ", []string{"matvec_q8_q6_K_v2_pf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := emu.Open(t.Context(), emu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			changed := false
			err = gpu.LoadVariants(edited{d, func(file, text string) string {
				if file == s.Variant.Source {
					changed = strings.Contains(text, c.old)
					return strings.Replace(text, c.old, c.new, 1)
				}
				return text
			}}, []*kernel.Variant{s.Variant})
			if !changed {
				t.Fatal("the source does not hold what is to be changed")
			}
			if err == nil {
				t.Fatal("it is loaded")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v\nwant %s", err, want)
				}
			}
		})
	}
}

// The machine is not one that the kernel was compiled for: the gate refuses before the module could lack it.
func TestOtherArchitecture(t *testing.T) {
	for _, arch := range []int{80, 121} {
		d, err := emu.Open(t.Context(), emu.Options{Threads: 1, Arch: arch})
		if errors.Is(err, emu.ErrNoCompiler) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		seen := map[string]bool{} // families of which one was tried: each try compiles
		for _, e := range gate.All {
			for _, s := range Subjects(e, Options{Brief: true}) {
				if runsOn(s.Variant, arch) {
					continue
				}
				q := s.query()
				q.Arch, q.SharedBytes = arch, 227<<10
				if i := s.refusal(&q); i < 0 || s.Variant.Bounds[i].Kind != kernel.Arch && s.Variant.Bounds[i].Kind != kernel.Only {
					t.Errorf("%s is not refused on sm_%d", s.Variant, arch)
				}
				if seen[e.Family] {
					continue
				}
				seen[e.Family] = true
				if err := gpu.LoadVariants(d, []*kernel.Variant{s.Variant}); err == nil || !strings.Contains(err.Error(), s.Variant.Symbol) {
					t.Errorf("%s loads on sm_%d, or the error does not name it: %v", s.Variant, arch, err)
				}
			}
		}
		if len(seen) == 0 {
			t.Errorf("every kernel runs on sm_%d", arch)
		}
	}
}
