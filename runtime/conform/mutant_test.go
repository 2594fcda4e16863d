package conform

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/cuda"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// edited is a driver that compiles other text than it is given.
type edited struct {
	*emu.Driver
	edit func(file, text string) string
}

func (d edited) Load(m gpu.Module) error {
	headers := map[string]string{}
	for name, text := range m.Headers {
		headers[name] = d.edit(name, text)
	}
	m.Headers = headers
	m.Units = slices.Clone(m.Units)
	for i := range m.Units {
		m.Units[i].Source = d.edit(m.Units[i].Name, m.Units[i].Source)
	}
	return d.Driver.Load(m)
}

// mutant is one change of one file.
type mutant struct {
	subject string // the variant that it should break
	file    string
	line    int    // of the file, from 1
	rule    string // what was changed
	was, is string // the line
	next    string // the line after it
	text    string // of the whole file

	pipelined bool
}

func (m mutant) String() string {
	return fmt.Sprintf("%s line %d: %s: %s", m.file, m.line, m.rule, m.form())
}

// form is the changed line, or the line that is gone after a minus.
func (m mutant) form() string {
	if is := strings.TrimSpace(m.is); is != "" {
		return is
	}
	return "- " + strings.TrimSpace(m.was)
}

// lineMutants are the changed forms of a line of a kernel's body.
func lineMutants(line string, pointers []string) map[string]string {
	forms := map[string]string{} // changed line to rule
	add := func(rule, form string) {
		if form != line && forms[form] == "" {
			forms[form] = rule
		}
	}
	replaceAt := func(at []int, with string) string { return line[:at[0]] + with + line[at[1]:] }
	if strings.Contains(line, "MINFER_COVER") && !strings.Contains(line, "if") || strings.HasPrefix(strings.TrimSpace(line), "//") || strings.Contains(line, "static_assert") {
		return nil
	}
	code, _, _ := strings.Cut(line, "//")
	// Strides and divisors of indices.
	if indexLine.MatchString(code) {
		for _, at := range literal.FindAllStringIndex(code, -1) {
			n, _ := strconv.Atoi(code[at[0]:at[1]])
			if strings.HasPrefix(code[at[1]:], "*0") {
				continue // the stride of a digit that is 0 here
			}
			if n > 0 {
				add("stride or radix + 1", replaceAt(at, strconv.Itoa(n+1)))
			}
			if n > 1 {
				add("stride or radix - 1", replaceAt(at, strconv.Itoa(n-1)))
			}
		}
	}
	// Predicates: dropped, or off by one either way.
	if guard.MatchString(code) {
		add("predicate dropped", "")
	}
	if m := condition.FindStringSubmatchIndex(code); m != nil && !guard.MatchString(code) {
		add("predicate dropped", replaceAt(m[2:4], "true"))
	}
	for _, c := range compare.FindAllStringSubmatchIndex(code, -1) {
		if counted.MatchString(code) || strings.Contains(code, "+= 4") {
			break // one value more would leave the array that the loop runs over, which C++ leaves open; one less is no less of fours
		}
		op := code[c[2]:c[3]]
		if !array.MatchString(code) {
			add("predicate off by one", replaceAt(c[2:4], map[string]string{">=": ">", "<": "<="}[op]))
		}
		add("predicate off by one", replaceAt(c[4:6], code[c[4]:c[5]]+" - 1"))
	}
	// Loops: one value less, or begun one late.
	for _, m := range loop.FindAllStringSubmatchIndex(code, -1) {
		if n, _ := strconv.Atoi(code[m[2]:m[3]]); n > 1 {
			add("loop one short", replaceAt(m[2:4], strconv.Itoa(n-1)))
		}
	}
	for _, m := range start.FindAllStringSubmatchIndex(code, -1) {
		add("loop begun late", replaceAt(m[2:4], "1"))
	}
	// Addresses.
	for _, m := range rowStride.FindAllStringSubmatchIndex(code, -1) {
		add("address of the next row", replaceAt(m[2:4], "("+code[m[2]:m[3]]+" + 1)"))
	}
	for _, p := range pointers {
		for _, at := range regexp.MustCompile(`\b`+p+`\[`).FindAllStringIndex(code, -1) {
			add("address one on", line[:at[1]]+"1 + "+line[at[1]:])
		}
	}
	if i := strings.Index(code, "unit_load(r"); i >= 0 && strings.Contains(code[i:], "w") {
		add("load shifted by a block", strings.Replace(line, ", w", ", Unit::block_bytes + w", 1))
	}
	add("rows for the stride of outputs", strings.Replace(line, "* y_stride", "* rows", 1))
	add("a warp's sum lost", blockSum.ReplaceAllStringFunc(line, func(s string) string {
		n, _ := strconv.Atoi(blockSum.FindStringSubmatch(s)[1])
		return fmt.Sprintf("block_sum<%d>", n-1)
	}))
	return forms
}

var (
	indexLine = regexp.MustCompile(`^\s*(const int|int|const size_t) [a-z]\w* = `)
	literal   = regexp.MustCompile(`\b\d+\b`)
	guard     = regexp.MustCompile(`^\s*if \(.*\) (break|return|continue);`)
	condition = regexp.MustCompile(`^\s*if \((.*)\) [^{]*[;{]`)
	compare   = regexp.MustCompile(`\w (>=|<) ((?:\w|::|\.)+)`)
	loop      = regexp.MustCompile(`for \(int \w+ = \w+; \w+ < (\d+);`)
	counted   = regexp.MustCompile(`for \(int \w+ = \w+; \w+ < (\d+|\w*(stages|tile|slots|rows|warps|groups)\w*|Unit::elems / 8);`)
	array     = regexp.MustCompile(`for \(int \w+ = 0; \w+ < (mine|ahead|columns);`) // one value more is left open here too
	start     = regexp.MustCompile(`for \(int \w+ = (0);`)
	rowStride = regexp.MustCompile(`\(size_t\)(\w+) \*`)
	blockSum  = regexp.MustCompile(`block_sum<(\d+)>`)
	pipelines = regexp.MustCompile(`-ring-|attend-step`) // families that are pipelined
)

// kernelMutants changes every line of a kernel's body.
func kernelMutants(s *Subject) (all []mutant) {
	data, err := cuda.Sources.ReadFile(s.Variant.Source)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	lines := strings.Split(string(data), "\n")
	head := regexp.MustCompile(`^MINFER_KERNEL(_RESIDENT)?\(` + s.Variant.Symbol + `,`)
	first := slices.IndexFunc(lines, head.MatchString)
	if first < 0 {
		panic("BUG: no kernel " + s.Variant.Symbol)
	}
	var pointers []string
	for _, a := range s.Variant.Args {
		if strings.HasSuffix(a.Type, "*") {
			pointers = append(pointers, a.Name)
		}
	}
	for i := first + 1; lines[i] != "}"; i++ {
		forms := lineMutants(lines[i], pointers)
		for _, form := range slices.Sorted(maps.Keys(forms)) {
			text := slices.Clone(lines)
			text[i] = form
			all = append(all, mutant{s.Variant.String(), s.Variant.Source, i + 1, forms[form], lines[i], form, strings.TrimSpace(lines[i+1]), strings.Join(text, "\n"), pipelines.MatchString(s.Variant.Family)})
		}
	}
	return all
}

// decoderMutants changes every number in the decoder that a kernel uses.
func decoderMutants(s *Subject, unit string) (all []mutant) {
	file := s.Variant.Format + ".cuh"
	data, err := cuda.Sources.ReadFile(file)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	body, err := cuda.Sources.ReadFile(s.Variant.Source)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	holds := strings.Contains(string(body), "_held") // loads that are on their way while others are decoded
	lines := strings.Split(string(data), "\n")
	inside := false
	for i, line := range lines {
		if strings.HasPrefix(line, "MINFER_DEVICE") {
			inside = strings.Contains(line, unit+"&") && (holds || !strings.Contains(line, "_held")) && !strings.Contains(line, " unit_code(") && !strings.Contains(line, " unit_scale(") && !strings.Contains(line, " unit_offset(") && !strings.Contains(line, " unit_bias(")
		}
		if line == "}" {
			inside = false
		}
		if line == "}" {
			inside = false
		}
		if !inside {
			continue
		}
		for _, at := range literal.FindAllStringIndex(line, -1) {
			n, _ := strconv.Atoi(line[at[0]:at[1]])
			text := slices.Clone(lines)
			text[i] = line[:at[0]] + strconv.Itoa(n+1) + line[at[1]:]
			all = append(all, mutant{s.Variant.String(), file, i + 1, "number + 1", line, text[i], "", strings.Join(text, "\n"), false})
		}
	}
	return all
}

// equivalents lists changes that change nothing that a shape within the gate can show, with the reason.
var equivalents = []struct {
	subject string // a pattern of the variants
	form    string // the changed line; after a minus, the line that is gone
	next    string // the line after it, where several are alike
	why     string
}{
	{"top-k", "int sorted = 2;  // keys of a sorted part: the least power of two that holds k", "", "one key is asked for, and the better of two sorted ones is the first"},
	{"top-k", "while (sorted <= kept) sorted <<= 1;", "", "twice as many are sorted as are asked for"},
	{"top-k/", "int length = 4097;  // keys that are sorted: no more of a short run than hold numbers", "", "half of it is the same"},
	{"top-k-merge/", "int length = 2049;  // keys that are sorted: no more of a short run than hold numbers", "", "half of it is the same"},
	{"top-k/", "while (length / 2 > sorted && length / 2 >= cols - 4096 * run) length /= 2;", "", "twice as many are sorted as hold numbers"},
	{"top-k-merge/", "while (length / 2 > sorted && length / 2 >= cols - 2048 * run) length /= 2;", "", "twice as many are sorted as hold numbers"},
	{"top-k/", "while (length / 2 >= sorted && length / 2 > cols - 4096 * run) length /= 2;", "", "twice as many are sorted as hold numbers"},
	{"top-k-merge/", "while (length / 2 >= sorted && length / 2 > cols - 2048 * run) length /= 2;", "", "twice as many are sorted as hold numbers"},
	{"top-k/", "while (length / 2 >= sorted - 1 && length / 2 >= cols - 4096 * run) length /= 2;", "", "of two keys, of which one holds a number, that one is the first"},
	{"top-k-merge/", "while (length / 2 >= sorted - 1 && length / 2 >= cols - 2048 * run) length /= 2;", "", "of two keys, of which one holds a number, that one is the first"},
	{"top-k/", "for (int i = thread; i < n - 1 / 2; i += 512) {", "", "pairs past the n keys hold none of them, and the emulator does not bound static shared memory"},
	{"top-k-merge/", "for (int i = thread; i < n - 1 / 2; i += 256) {", "", "pairs past the n keys hold none of them, and the emulator does not bound static shared memory"},
	{"top-k/", "for (int i = thread; i <= n / 2; i += 512) {", "", "pairs past the n keys hold none of them, and the emulator does not bound static shared memory"},
	{"top-k-merge/", "for (int i = thread; i <= n / 2; i += 256) {", "", "pairs past the n keys hold none of them, and the emulator does not bound static shared memory"},
	{"top-k", "if ((ka <= kb) == ((a & size) == 0)) keys[a] = kb, keys[b] = ka;", "", "equal keys change places"},
	{"top-k", "if (i < n - 1 / 2) best[j] = keys[a] > keys[a + sorted] ? keys[a] : keys[a + sorted];", "", "what is read too much is not put back"},
	{"top-k", "if (i <= n / 2) best[j] = keys[a] > keys[a + sorted] ? keys[a] : keys[a + sorted];", "", "what is read too much is not put back"},
	{"top-k", "if (true) best[j] = keys[a] > keys[a + sorted] ? keys[a] : keys[a + sorted];", "", "what is read too much is not put back"},
	{"top-k", "if (i < n - 1 / 2) keys[i] = best[j];", "", "keys from n / 2 on are not read again"},
	{"top-k", "if (i <= n / 2) keys[i] = best[j];", "", "keys from n / 2 on are not read again"},
	{"top-k", "if (true) keys[i] = best[j];", "", "keys from n / 2 on are not read again"},
	{"top-k-merge/sift", "const int held = min(cols - 5120 * run, 5119), lists = (held + kept - 1) / kept, nth = thread / lists;", "", "whichever keys of a run are looked at, the bound holds"},
	{"top-k-merge/sift", "const bool there = thread < 128 && nth < kept && looked < held - 1;", "", "whichever keys of a run are looked at, the bound holds"},
	{"top-k-merge/sift", "const bool there = thread < 128 && nth < kept - 1 && looked < held;", "", "whichever keys of a run are looked at, the bound holds"},
	{"top-k-merge/sift", "const bool there = thread < 128 - 1 && nth < kept && looked < held;", "", "whichever keys of a run are looked at, the bound holds"},
	{"top-k-merge/sift", "const bool there = thread <= 128 && nth < kept && looked < held;", "", "the key of thread 128 is not put down"},
	{"top-k/sift", "for (int slot = 1; slot < 3; slot++) part = max(part, keys[slot]);", "", "whichever keys of a run are looked at, the bound holds"},
	{"top-k.*/sift", "if (true) sample[few ? thread >> 3 : four] = key;", "", "after the shuffles all lanes of a group hold the same"},
	{"top-k-merge/sift", "if (true) {", "const long long key = sample[four];", "past the sample lie keys that were looked at too: a bound that as many are not below"},
	{"top-k.*/sift", "if (true) count[0] = 0;", "", "all threads write the same"},
	{"top-k.*/sift", "if (true) {", "int i = atomic_add(count, mine);", "a thread that has none to list adds none"},
	{"top-k.*/sift", "if (i < 512 - 1) listed[i] = keys[slot];", "", "where one is not listed, all are counted once more with a higher bound"},
	{"top-k.*/sift", "if (true) {", "const long long key = listed[four];", "what threads past the listed hold has no place"},
	{"argmax/", "if (true) bests[warp_index()] = best;", "", "after the shuffles all lanes hold the same"},
	{"attend-combine/", "if (true) total = fmaf(p[head_dim], expf(p[head_dim + 1] - top), total);", "", "an empty share adds 0 * exp(-inf)"},
	{"attend-prefill/", "const int last = min(tokens, t - warp + 9) - 1;", "", "rounds past the tile's last token are masked: it only works longer"},
	{"attend-prefill/", "const int last = min(tokens, t - warp + 5) - 1;", "", "rounds past the tile's last token are masked: it only works longer"},
	{"attend-prefill/", "for (int round = 0; 32 * round <= block_extent; round++) {", "", "one round more is masked"},
	{"attend-prefill/", "const float keep = next == -INFINITY ? 0.0f : expf(top - next), p = j <= extent ? expf(s - next) : 0.0f;", "", "the score past the extent is -inf, its weight 0"},
	{"attend-prefill/", "if (e <= head_dim) sum = fmaf(pi, staged[i][e], sum);", "", "sums past the head are not stored"},
	{"attend-prefill/", "if (true) sum = fmaf(pi, staged[i][e], sum);", "", "sums past the head are not stored"},
	{"attend-split/", "if (true) tops[warp] = top[query], weights[warp] = weight[query];", "", "all lanes of a warp hold the same"},
	{"attend-split/", "if (true) to[head_dim] = total, to[head_dim + 1] = all;", "", "all threads hold the same"},
	{"attend-split/", "- if (g >= group) break;", "float s = 0.0f;", "queries past the group are zero and not stored"},
	{"attend-split/", "if (g > group) break;", "float s = 0.0f;", "queries past the group are zero and not stored"},
	{"attend-step/", "const int position = positions[0], extent = position + 2;", "", "it moves where shares meet; the rounds end at the position itself"},
	{"attend-step-mma/", "const int j = position_lo + 16*warp + 2*0 + query + 7*column + 64*round;", "", "the new position's key may be fetched, but the block's own takes its place; others past the share count nothing"},
	{"attend-step-mma/", "const int column = i / 2, pair = i % 2, j = position_lo + 16*warp + 2*seat + pair + 7*column + 64*round;", "MINFER_UNROLL", "as for keys"},
	{"quantize-a8/", "if (e - lane >= cols - 1) return;  // a whole warp: cols is a multiple of its lanes", "", "cols and e - lane are multiples of 32"},
	{"quantize-a8/", "const int q = scaled > -127.0f ? (scaled > 127.0f ? 127 : round_even_int(scaled)) : -127;", "", "127 rounds to 127"},
	{"quantize-a8/", "if (true) {", "", "all lanes hold the same"},
	{"matvec-f32/q4_K/", "if (true) dot = fmaf(unit_bias(r, g), sum, dot);", "", "biases of q4_K are zero"},
	{"matvec-f32/q4_K/", "if (true) sum += xu[e];", "", "q4_K has an offset, so that the condition holds"},
	{"matvec-f32/q4_K/", "if (true) acc[slot] = fmaf(-unit_offset(r, g), sum, acc[slot]);", "", "q4_K has an offset, so that the condition holds"},
	{"matmul-bf16/", "for (int round = 0; round <= rounds; round++) {", "const int stage = round % stages;", "a round more is decoded, and nobody multiplies it"},
	{"matmul-wgmma/q4_K/", "const int units = cols / Unit::elems, rounds = (units + pieces - 2) / pieces;", "", "units come by the eight, those of a block"},
	{"matmul-wgmma/q4_K/", "if (row < rows && t < tokens && u <= units) MINFER_COVER(row, u, t);", "", "units come by the eight, so that no round has one past the end"},
	{"matmul-wgmma/", "const bool there = round * tile_elems + 8 * chunk < cols - 1;", "", "chunks are eight columns"},
	{"matmul-wgmma/q4_K/", "const bool there = round * tile_elems + 8 * chunk <= cols;", "", "columns come by the 256, so that no round has chunks past the end"},
	{"matmul-wgmma/", "if (true) acts += tile_elems;", "", "only in the last round are chunks past the end"},
	{"matmul-wgmma/", "if (true) {", "for (int s = 0; s < stages; s++) {", "all threads write the same, before the barrier"},
	{"matmul-wgmma/q4_K/.*_(small|r64|r160)$", "for (int begin = 0; begin < rounds - 1; begin += ahead) {", "", "rounds come by the two, those of a block"},
	{"matmul-wgmma/", "for (int begin = 0; begin <= rounds; begin += ahead) {", "", "rounds past the last are left again at once"},
	{"matmul-wgmma/", "- if (round >= rounds) break;", "", "a round more is decoded, and nobody multiplies it"},
	{"matmul-wgmma/", "if (round > rounds) break;", "", "a round more is decoded, and nobody multiplies it"},
	{"matmul-wgmma/.*/(padded|lanes|.*_small)$", "const auto has = [&](int i) { return tile_rows % step == 0 || first + i * step < tile_rows - 1; };  // of one warp, all or none", "", "tiles of 64 and 128 rows are whole steps"},
	{"matmul-wgmma/.*/(padded|lanes|.*_small)$", "const auto has = [&](int i) { return tile_rows % step == 0 || first + i * step <= tile_rows; };  // of one warp, all or none", "", "tiles of 64 and 128 rows are whole steps"},
	{"matmul-wgmma/", "if (true) unit_hold(held[turn][i], from[i], cols, min(piece + 4*round, units - 1));", "", "units of rows past the tile are loaded and not decoded"},
	{"matmul-wgmma/.*/(padded|lanes|.*_small)$", "- if (!has(i)) continue;", "", "tiles of 64 and 128 rows are whole steps"},
	{"matmul-wgmma/", "if (pairs && row + 1 < rows - 1) {", "", "the last two rows are stored one by one"},
	{"-ring-q8/", "const int units = cols / Unit::elems, columns = (units + 6) / 8;", "", "units come by the eight, those of a block"},
	{"-ring-q8/.*/c[1-8]$", "const int units = cols / Unit::elems, columns = (units + 7) / 9;", "", "up to 8 columns it is the same"},
	{"gate-ring-q8/", "const int part = lane % per_row, matrix = lane / (33 / 2);", "", "half of it is the same"},
}

// Every change of an index, a predicate, a loop or an address in an emitted kernel turns the suite red. The kernels stand for their
// families: the bodies of one template differ between formats in the decoder alone, and those are changed too.
//
// In kernels whose warps work on one another's data (those that await their predecessor), predicates also keep threads from work whose result a
// later predicate drops; there the survivors among predicates are counted and not judged.
func TestSourceMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles hundreds of kernels")
	}
	open(t)
	all := os.Getenv("MINFER_CONFORM") == "all"
	type group struct {
		name    string
		mutants []mutant
	}
	var groups []group
	for _, e := range gate.All {
		// q4_K has offsets, q6_K the case that this project began with; of the caches one is enough.
		stands := e.Format == "" || e.Format == "f16" || e.Format == "q4_K" || e.Format == "q6_K" && e.Family == "matvec-q8"
		if !stands {
			continue
		}
		subjects := Subjects(e, Options{Brief: true})
		for i, s := range subjects {
			// Rows of a family that differ in radices alone: the first and the last stand for those between.
			if len(subjects) > 3 && i > 0 && i < len(subjects)-1 {
				continue
			}
			m := kernelMutants(s)
			if !all {
				m = sample(m)
			}
			groups = append(groups, group{s.Variant.String(), m})
		}
	}
	for _, d := range []struct{ subject, unit string }{{"matvec-q8/q6_K/v2", "q6_K_padded"}, {"matvec-q8/q4_K/v1", "q4_K_file_x64"}, {"matvec-q8/iq3_xxs/v2", "iq3_xxs_padded"}} {
		m := decoderMutants(subjectOf(t, d.subject), d.unit)
		if !all {
			for i := range len(m) / 6 {
				m[i] = m[6*i]
			}
			m = m[:len(m)/6]
		}
		groups = append(groups, group{"decoder/" + d.unit, m})
	}

	var mu sync.Mutex
	n, spared, killers, start := 0, 0, map[string]int{}, time.Now()
	t.Cleanup(func() {
		t.Logf("%d mutants in %.0f s, by killer: %v; %d predicates of pipelined kernels survive", n, time.Since(start).Seconds(), killers, spared)
	})
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, m := range g.mutants {
				killer := m.kill(t)
				i := slices.IndexFunc(equivalents, func(e struct{ subject, form, next, why string }) bool {
					return regexp.MustCompile(e.subject).MatchString(m.subject) && m.form() == e.form && (e.next == "" || e.next == m.next)
				})
				judge, _, _ := strings.Cut(killer, ": ")
				mu.Lock()
				n++
				killers[judge]++
				mu.Unlock()
				switch {
				case killer == "" && i >= 0:
					t.Logf("%s: changes nothing: %s", m, equivalents[i].why)
				case killer == "" && m.pipelined && strings.HasPrefix(m.rule, "predicate"):
					mu.Lock()
					spared++
					mu.Unlock()
					t.Logf("%s: survives", m)
				case killer == "":
					t.Errorf("%s: survives\n\twas %s", m, strings.TrimSpace(m.was))
				case i >= 0:
					t.Errorf("%s is listed as equivalent but was killed: %s", m, killer)
				default:
					t.Logf("%s: killed by %s", m, killer)
				}
			}
		})
	}
}

// sample keeps one mutant of each rule of a kernel, another one for each kernel, and all of those of the kernel whose fault this project began
// with. MINFER_CONFORM=all runs all of them.
func sample(all []mutant) (kept []mutant) {
	of := map[string][]mutant{}
	var keys []string
	for _, m := range all {
		key := m.subject + m.rule
		if of[key] == nil {
			keys = append(keys, key)
		}
		of[key] = append(of[key], m)
	}
	for i, key := range keys {
		if list := of[key]; list[0].subject == "matvec-q8/q6_K/v2_pf" {
			kept = append(kept, list...)
		} else {
			kept = append(kept, list[i%len(list)])
		}
	}
	return kept
}

// kill runs the suite of the mutant's kernel until something is wrong, and says what.
func (m mutant) kill(t *testing.T) string {
	d, err := emu.Open(t.Context(), emu.Options{Threads: 1, Timeout: 20 * time.Second})
	if err != nil {
		t.Error(err)
		return ""
	}
	defer d.Close()
	changed := edited{d, func(file, text string) string {
		if file == m.file {
			return m.text
		}
		return text
	}}
	s := subjectOf(t, m.subject)
	s.patience = 1
	if err := gpu.LoadVariants(changed, []*kernel.Variant{s.Variant}); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return "compiler: " + first
	}
	r, err := s.Judge(changed)
	if err != nil && !errors.Is(err, gpu.ErrLost) {
		t.Error(err)
	}
	if len(r.Failures) == 0 {
		return ""
	}
	var text []string
	for _, f := range r.Failures {
		text = append(text, fmt.Sprintf("%s: %s: %s", f.Judge, f.Job, f.Text))
	}
	return strings.Join(text, "; ")
}
