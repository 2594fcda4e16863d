package conform

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/cuda"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// Every product in an address of an emitted kernel is formed in 64 bits. The declarations of a body say how wide a name is; an offset into
// memory that multiplies must name something of 64 bits, where it multiplies.
func TestAddressesAre64Bits(t *testing.T) {
	files, err := fs.Glob(cuda.Sources, "*.cu")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		data, err := cuda.Sources.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found, narrow := narrowAddresses(string(data))
		n += found
		for _, line := range narrow {
			t.Errorf("%s: %s: an offset is multiplied in 32 bits", path.Base(name), line)
		}
	}
	t.Logf("%d addresses with products in %d files", n, len(files))
	if n < 500 {
		t.Errorf("only %d addresses with products were found", n)
	}
	// The judge notices what it is there for.
	data, err := cuda.Sources.ReadFile("matvec_q8_q6_K.cu")
	if err != nil {
		t.Fatal(err)
	}
	for _, cast := range []string{"w + (size_t)row *", "x + (size_t)t *", "y[(size_t)t * y_stride"} {
		text := strings.ReplaceAll(string(data), cast, strings.Replace(cast, "(size_t)", "", 1))
		text = strings.ReplaceAll(text, "long long y_stride", "int y_stride")
		if _, narrow := narrowAddresses(text); len(narrow) == 0 {
			t.Errorf("%s without its cast goes unnoticed", cast)
		}
	}
}

var (
	kernelHead  = regexp.MustCompile(`\nMINFER_KERNEL(?:_RESIDENT)?\(`)
	wideName    = regexp.MustCompile(`\b(?:size_t|long long|int64_t|uint64_t) (\w+)( =|,|\))`)
	globalName  = regexp.MustCompile(`(?:const )?(?:uint8_t|float|int|uint16_t|uint64_t)\*(?: __restrict__)? (\w+)`)
	sharedName  = regexp.MustCompile(`(\w+) = (?:dynamic_shared(?:_at)?|full|tiles|activations|weights|reinterpret_cast<\w+\*>\((?:ring|partial)|ring|stage)\b`)
	ofRow       = regexp.MustCompile(`^\d+ \* \w+$`)
	offsetStart = regexp.MustCompile(`\b(\w+)(\[| \+ )`)
)

// narrowAddresses lists the lines that multiply an offset into global memory in 32 bits, and counts the offsets that multiply.
func narrowAddresses(text string) (found int, narrow []string) {
	for _, body := range kernelHead.Split(text, -1)[1:] {
		body, _, _ = strings.Cut(body, "\n}\n")
		wide, global := map[string]bool{}, map[string]bool{}
		for _, m := range wideName.FindAllStringSubmatch(body, -1) {
			wide[m[1]] = true
		}
		for _, m := range globalName.FindAllStringSubmatch(body, -1) {
			global[m[1]] = true
		}
		for _, m := range sharedName.FindAllStringSubmatch(body, -1) {
			delete(global, m[1])
		}
		for _, line := range strings.Split(body, "\n") {
			code, _, _ := strings.Cut(line, "//")
			for _, m := range offsetStart.FindAllStringSubmatchIndex(code, -1) {
				if !global[code[m[2]:m[3]]] {
					continue
				}
				for _, term := range terms(code[m[5]:], code[m[4]] == '[') {
					if !strings.Contains(term, " * ") {
						continue
					}
					found++
					// A literal times an index is an element of a row, which an argument of 32 bits counts.
					ok := ofRow.MatchString(strings.TrimSpace(term)) || strings.Contains(term, "(size_t)") || strings.Contains(term, "(long long)") || strings.Contains(term, "_bytes") && strings.Contains(term, "size_t")
					// A place in a tile is one in shared memory, and a token before the last is counted by an argument of 32 bits.
					ok = ok || strings.Contains(term, "tile_at(") || strings.HasPrefix(strings.TrimSpace(term), "min(tokens, ")
					for name := range wide {
						ok = ok || regexp.MustCompile(`\b`+name+`\b`).MatchString(term)
					}
					if !ok {
						narrow = append(narrow, strings.TrimSpace(line))
					}
				}
			}
		}
	}
	return found, narrow
}

// terms are the summands of an offset: up to the closing bracket, or to the end of the argument.
func terms(code string, bracket bool) (list []string) {
	depth, from := 0, 0
	add := func(to int) { list = append(list, code[from:to]) }
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			if depth == 0 {
				add(i)
				return list
			}
			depth--
		case depth == 0 && (c == ',' || c == ';' || c == '?' || c == ':' || c == '=' && !bracket):
			add(i)
			return list
		case depth == 0 && strings.HasPrefix(code[i:], " + "):
			add(i)
			from = i + 3
		}
	}
	add(len(code))
	return list
}

// thorough skips a test that takes minutes unless MINFER_CONFORM=all asks for it.
func thorough(t *testing.T, why string) {
	if os.Getenv("MINFER_CONFORM") != "all" {
		t.Skip(why + "; set MINFER_CONFORM=all")
	}
}

// sparse is device memory of which little is written; what is not holds the emulator's NaN.
func sparse(t *testing.T, b *bench, bytes int64, at int64, content []byte) gpu.Pointer {
	t.Helper()
	p, err := b.driver.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.driver.Upload(p+gpu.Pointer(at), content); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.driver.Free(p) })
	return p
}

// Offsets past 2^31 bytes, and past 2^31 elements where memory allows, are right: real launches on buffers of over 2 GiB.
func TestOffsetsPast2To31(t *testing.T) {
	if testing.Short() {
		t.Skip("takes buffers of over 2 GiB")
	}
	launch := func(t *testing.T, b *bench, q kernel.Query, args map[string]any, pointers map[string]gpu.Pointer) {
		t.Helper()
		v := b.subject.Variant
		l := gpu.Launch{Kernel: v.Symbol, Grid: v.Grid(&q), Block: [3]uint32{v.Threads, 1, 1}, SharedBytes: v.Shared(&q)}
		if i := b.subject.refusal(&q); i >= 0 {
			t.Fatalf("refused: %s", v.Bounds[i])
		}
		for _, a := range v.Args {
			if p, ok := pointers[a.Name]; ok {
				l.Args = append(l.Args, gpu.PointerArg(p))
			} else if strings.HasSuffix(a.Type, "*") {
				m, err := b.upload(a.Name, contentOf(args[a.Name]))
				if err != nil {
					t.Fatal(err)
				}
				l.Args = append(l.Args, gpu.PointerArg(m.at))
			} else {
				l.Args = append(l.Args, scalar(a, args[a.Name]))
			}
		}
		if err := b.driver.Launch(l); err != nil {
			t.Fatal(err)
		}
	}
	read := func(t *testing.T, b *bench, p gpu.Pointer, n int) []float32 {
		t.Helper()
		data := make([]byte, 4*n)
		if err := b.driver.Download(data, p); err != nil {
			t.Fatal(err)
		}
		return floatsOf(data)
	}

	// A table whose row 149797 is the first to begin past 2^31 bytes: 64 blocks of 224.
	const cols, rowBytes, last = 16384, 64 * 224, 149797
	t.Run("embed", func(t *testing.T) {
		b := benchOf(t, subjectOf(t, "embed/q6_K/padded"))
		w := makeWeights(b.subject.Info, 2, cols, sane, random(1))
		data := w.place("padded")
		table := sparse(t, b, (last+1)*rowBytes, (last-1)*rowBytes, data)
		q := b.subject.query()
		q.Cols, q.Tokens = cols, 2
		out := sparse(t, b, 8*cols, 0, nans(2*cols))
		launch(t, b, q, map[string]any{"ids": []int32{last - 1, last}, "cols": int64(cols)}, map[string]gpu.Pointer{"w": table, "out": out})
		if err := exactly(floatBytes(read(t, b, out, 2*cols)), func(i int64) float32 { return w.values[i] }); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"matvec-q8/q6_K/v2", "matmul-q8/q6_K/padded_t8", "matvec-f32/q6_K/padded_rows2"} {
		t.Run(name, func(t *testing.T) {
			thorough(t, "launches 150000 rows of 16384")
			s := subjectOf(t, name)
			b := benchOf(t, s)
			p := product{rows: 2, cols: cols, tokens: 1, weights: sane, x: normal}
			j := s.product(p) // the two last rows, on their own
			table := sparse(t, b, (last+1)*rowBytes, (last-1)*rowBytes, j.args["w"].([]byte))
			q := j.query
			q.Rows = last + 1
			// The outputs of all rows; those of rows that are not there are what NaN gives.
			y := sparse(t, b, 4*(last+1), 0, nans(last+1))
			j.args["rows"], j.args["y_stride"], j.args["bias"] = int64(last+1), int64(last+1), make([]float32, last+1)
			launch(t, b, q, j.args, map[string]gpu.Pointer{"w": table, "y": y})
			if _, err := j.check(floatBytes(read(t, b, y+4*(last-1), 2))); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("outputs of a far token", func(t *testing.T) {
		s := subjectOf(t, "matvec-q8/q6_K/v2")
		b := benchOf(t, s)
		const stride = 1<<29 + 7 // elements: the second token's outputs begin past 2^31 bytes
		j := s.product(product{rows: 3, cols: 256, tokens: 2, weights: sane, x: normal})
		y := sparse(t, b, 4*(stride+3), 0, nans(3))
		j.args["y_stride"] = int64(stride)
		if err := b.driver.Upload(y+4*stride, nans(3)); err != nil {
			t.Fatal(err)
		}
		launch(t, b, j.query, map[string]any{"w": j.args["w"], "x": j.args["x"], "bias": make([]float32, 3), "rows": int64(3), "cols": int64(256), "y_stride": int64(stride)}, map[string]gpu.Pointer{"y": y})
		both := append(read(t, b, y, 3), read(t, b, y+4*stride, 3)...)
		if _, err := j.check(floatBytes(both)); err != nil {
			t.Error(err)
		}
	})
	t.Run("kv-append", func(t *testing.T) {
		s := subjectOf(t, "kv-append/f16/element")
		b := benchOf(t, s)
		const cols, position = 1 << 20, 1100 // 1100 * 2^20 * 2 bytes
		x := numbers(cols, false, random(2))
		cache := sparse(t, b, (position+1)*cols*2, 0, []byte{0})
		q := s.query()
		q.Cols, q.Tokens = cols, 1
		launch(t, b, q, map[string]any{"x": x, "positions": []int32{position}, "cols": int64(cols)}, map[string]gpu.Pointer{"cache": cache})
		data, want := make([]byte, 2*cols), make([]byte, 2*cols)
		if err := b.driver.Download(data, cache+position*cols*2); err != nil {
			t.Fatal(err)
		}
		kernelsOf(s).Quantize(want, x)
		if string(data) != string(want) {
			t.Error("the row past 2^31 bytes does not hold the numbers")
		}
	})
	t.Run("attention", func(t *testing.T) {
		thorough(t, "attends to 2^14 heads")
		// Few positions of keys so wide that the last begins past 2^31 bytes. The kernel goes over the heads that the grid names, so that
		// the last head alone could be asked for; all are, and those whose keys are not there give NaN.
		s := subjectOf(t, "attend-split/f16/d256_g8")
		b := benchOf(t, s)
		const kvHeads, headDim, position = 1 << 14, 256, 256 // 256 * 2^14 * 256 * 2 bytes
		m := s.memory(attention{kvHeads: 1, group: 1, headDim: headDim, shares: 1, positions: []int32{position}, fill: normal})
		const row = kvHeads * headDim * 2
		k, err := b.driver.Alloc((position + 1) * row)
		if err != nil {
			t.Fatal(err)
		}
		for j := range int64(position + 1) { // the last head's keys and values, which are the same buffer here
			if err := b.driver.Upload(k+gpu.Pointer(j*row+row-headDim*2), m.kb[j*headDim*2:(j+1)*headDim*2]); err != nil {
				t.Fatal(err)
			}
		}
		m.v = m.k
		q := s.query()
		q.KVHeads, q.Group, q.HeadDim, q.Context, q.Heads = kvHeads, 1, headDim, position+1, kvHeads
		queries := make([]float32, kvHeads*headDim)
		copy(queries[(kvHeads-1)*headDim:], m.q)
		partial := sparse(t, b, kvHeads*(headDim+2)*4, 0, []byte{0})
		launch(t, b, q, map[string]any{"q": queries, "positions": m.positions, "kv_heads": int64(kvHeads), "group": int64(1), "head_dim": int64(headDim), "scale": m.scale},
			map[string]gpu.Pointer{"k": k, "v": k, "partial": partial})
		out := read(t, b, partial+(kvHeads-1)*(headDim+2)*4, headDim+2)
		if _, err := m.partial(floatBytes(out), 0, 0, 0, 0, position+1); err != nil {
			t.Error(err)
		}
	})
}
