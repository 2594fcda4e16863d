package gguf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/minfer/minfer/generated/format"
)

// scalar draws a value of a type that is not an array, with the Go value that it stands for.
func scalar(t *rapid.T, typ ValueType) (Value, any) {
	switch typ {
	case TypeUint8:
		v := rapid.Uint8().Draw(t, "u8")
		return Of(v), v
	case TypeInt8:
		v := rapid.Int8().Draw(t, "i8")
		return Of(v), v
	case TypeUint16:
		v := rapid.Uint16().Draw(t, "u16")
		return Of(v), v
	case TypeInt16:
		v := rapid.Int16().Draw(t, "i16")
		return Of(v), v
	case TypeUint32:
		v := rapid.Uint32().Draw(t, "u32")
		return Of(v), v
	case TypeInt32:
		v := rapid.Int32().Draw(t, "i32")
		return Of(v), v
	case TypeUint64:
		v := rapid.Uint64().Draw(t, "u64")
		return Of(v), v
	case TypeInt64:
		v := rapid.Int64().Draw(t, "i64")
		return Of(v), v
	case TypeFloat32:
		v := rapid.Float32().Draw(t, "f32")
		return Of(v), v
	case TypeFloat64:
		v := rapid.Float64().Draw(t, "f64")
		return Of(v), v
	case TypeBool:
		v := rapid.Bool().Draw(t, "bool")
		return Of(v), v
	}
	v := string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "string"))
	return Of(v), v
}

func arrayOf[T Scalar](t *rapid.T, g *rapid.Generator[T]) (Value, any) {
	v := rapid.SliceOfN(g, 0, 9).Draw(t, "array")
	return ArrayOf(v), v
}

// value draws any value, arrays nested up to depth.
func value(t *rapid.T, depth int) (Value, any) {
	typ := ValueType(rapid.IntRange(0, int(TypeFloat64)).Draw(t, "type"))
	if typ != TypeArray {
		return scalar(t, typ)
	}
	return array(t, depth)
}

func array(t *rapid.T, depth int) (Value, any) {
	elem := ValueType(rapid.IntRange(0, int(TypeFloat64)).Draw(t, "element type"))
	if elem == TypeArray && depth < 2 {
		elem = TypeInt32
	}
	switch elem {
	case TypeUint8:
		return arrayOf(t, rapid.Uint8())
	case TypeInt8:
		return arrayOf(t, rapid.Int8())
	case TypeUint16:
		return arrayOf(t, rapid.Uint16())
	case TypeInt16:
		return arrayOf(t, rapid.Int16())
	case TypeUint32:
		return arrayOf(t, rapid.Uint32())
	case TypeInt32:
		return arrayOf(t, rapid.Int32())
	case TypeUint64:
		return arrayOf(t, rapid.Uint64())
	case TypeInt64:
		return arrayOf(t, rapid.Int64())
	case TypeFloat32:
		return arrayOf(t, rapid.Float32())
	case TypeFloat64:
		return arrayOf(t, rapid.Float64())
	case TypeBool:
		return arrayOf(t, rapid.Bool())
	case TypeString:
		return arrayOf(t, rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "string"))
		}))
	}
	n := rapid.IntRange(0, 3).Draw(t, "arrays")
	vs, want := make([]Value, n), make([]any, n)
	for i := range n {
		vs[i], want[i] = array(t, depth-1)
	}
	return ArrayOfArrays(vs...), want
}

// name draws a name of 1 to most bytes.
func name(most int) *rapid.Generator[string] {
	return rapid.StringMatching(fmt.Sprintf(`[a-zA-Z0-9._ é-]{1,%d}`, most/2))
}

// model is what goes into a Writer, as Go values.
type model struct {
	keys   []string
	values map[string]any
	types  map[string]ValueType
	specs  []tensorSpec
}

type tensorSpec struct {
	name  string
	typ   format.Type
	dims  []uint64
	bytes []byte
}

// draw makes a random model and the writer of it.
func draw(t *rapid.T) (*Writer, *model) {
	w, m := NewWriter(), &model{values: map[string]any{}, types: map[string]ValueType{}}
	if rapid.Bool().Draw(t, "version 2") {
		if err := w.SetVersion(2); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range rapid.SliceOfNDistinct(name(80), 0, 6, rapid.ID).Draw(t, "keys") {
		v, want := value(t, MaxNesting-1)
		m.keys, m.values[key], m.types[key] = append(m.keys, key), want, v.Type()
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	if rapid.Bool().Draw(t, "aligned") {
		align := uint32(1) << rapid.IntRange(3, 9).Draw(t, "alignment")
		m.keys, m.values[keyAlignment], m.types[keyAlignment] = append(m.keys, keyAlignment), align, TypeUint32
		if err := w.Set(keyAlignment, Of(align)); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range rapid.SliceOfNDistinct(name(MaxWrittenNameBytes), 0, 5, rapid.ID).Draw(t, "tensors") {
		info := rapid.SampledFrom(format.All()).Draw(t, "format")
		dims := rapid.SliceOfN(rapid.Uint64Range(1, 3), 0, MaxDims).Draw(t, "dims")
		if len(dims) > 0 {
			dims[0] *= uint64(info.BlockElems)
		} else if info.BlockElems > 1 {
			dims = []uint64{uint64(info.BlockElems)}
		}
		blocks := 1
		for i, d := range dims {
			if i == 0 {
				d /= uint64(info.BlockElems)
			}
			blocks *= int(d)
		}
		data := seeded(blocks*info.BlockBytes, rapid.Uint64().Draw(t, "seed"))
		m.specs = append(m.specs, tensorSpec{n, info.Type, dims, data})
		source := Bytes(data)
		if rapid.Bool().Draw(t, "reader") {
			source = func(ctx context.Context, w io.Writer) error { return Reader(bytes.NewReader(data))(ctx, w) }
		}
		if err := w.Add(n, info.Type, dims, source); err != nil {
			t.Fatal(err)
		}
	}
	return w, m
}

// same compares what was read with what was written.
func (m *model) same(t *rapid.T, f *File) {
	if got := f.Meta.Keys(); !slices.Equal(got, m.keys) {
		t.Fatalf("keys %q, want %q", got, m.keys)
	}
	nan := cmp.Options{
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	}
	for key, v := range f.Meta.All() {
		if v.Type() != m.types[key] {
			t.Fatalf("%q has type %s, want %s", key, v.Type(), m.types[key])
		}
		if d := cmp.Diff(m.values[key], v.Any(), nan); d != "" {
			t.Fatalf("%q: %s", key, d)
		}
	}
	if len(f.Tensors) != len(m.specs) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors), len(m.specs))
	}
	for i, s := range m.specs {
		got := f.Tensors[i]
		if got.Name != s.name || got.Type != s.typ || !slices.Equal(got.Dims, s.dims) || !bytes.Equal(got.Data(), s.bytes) {
			t.Fatalf("tensor %d is %v with %d bytes, want %s of type %d %v with %d", i, got, len(got.Data()), s.name, s.typ, s.dims, len(s.bytes))
		}
		if got.Offset%f.Parts[got.Part].Alignment != 0 {
			t.Fatalf("tensor %v at offset %d", got, got.Offset)
		}
		if found, ok := f.Tensor(s.name); !ok || found != got {
			t.Fatalf("tensor %q is not found by name", s.name)
		}
		var rows []byte
		for r := range got.Rows() {
			rows = append(rows, got.Row(r)...)
		}
		if !bytes.Equal(rows, s.bytes) || got.Elems() != int64(got.Rows())*int64(got.Cols()) {
			t.Fatalf("the rows of %v are not its bytes", got)
		}
	}
}

// TestRoundTrip: what is written is what is read, in order; the size is the one foretold; twice the same bytes; and a
// file built from what was read is the same file.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := draw(t)
		b, err := w.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if size, err := w.SizeBytes(); err != nil || size != int64(len(b)) {
			t.Fatalf("SizeBytes = %d, %v; the file has %d", size, err, len(b))
		}
		f, err := Parse("file", b)
		if err != nil {
			t.Fatal(err)
		}
		m.same(t, f)
		again, err := rewrite(f)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, b) {
			t.Fatal("a file written from what was read is another one")
		}
	})
}

// rewrite writes a file from what was read of it.
func rewrite(f *File) ([]byte, error) {
	w := NewWriter()
	if err := w.SetVersion(f.Version); err != nil {
		return nil, err
	}
	for key, v := range f.Meta.All() {
		if err := w.Set(key, v); err != nil {
			return nil, err
		}
	}
	for _, t := range f.Tensors {
		if err := w.Add(t.Name, t.Type, t.Dims, Bytes(t.Data())); err != nil {
			return nil, err
		}
	}
	return w.Marshal()
}

// TestSplitRoundTrip: a model in parts reads as the whole one, from any of its parts.
func TestSplitRoundTrip(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		w, m := draw(t)
		n++
		prefix := filepath.Join(dir, fmt.Sprintf("model%d", n))
		paths, err := w.WriteSplit(t.Context(), prefix, Split{
			MaxTensors: rapid.IntRange(0, 3).Draw(t, "most tensors"),
			MaxBytes:   rapid.Int64Range(0, 2000).Draw(t, "most bytes"),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, p := range paths {
				os.Remove(p)
			}
		}()
		f, err := Open(rapid.SampledFrom(paths).Draw(t, "part"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if len(f.Parts) != len(paths) {
			t.Fatalf("%d parts of %d", len(f.Parts), len(paths))
		}
		m.keys = append(m.keys, keySplitNo, keySplitCount, keySplitTensors)
		m.values[keySplitNo], m.types[keySplitNo] = uint16(0), TypeUint16
		m.values[keySplitCount], m.types[keySplitCount] = uint16(len(paths)), TypeUint16
		m.values[keySplitTensors], m.types[keySplitTensors] = int32(len(m.specs)), TypeInt32
		m.same(t, f)
	})
}

// TestFlippedBits: no bit of a file, turned over, makes the parser panic or take more than the file can hold; and what is
// then read is a file.
func TestFlippedBits(t *testing.T) {
	w := NewWriter()
	must(t, w.Set("general.architecture", Of("qwen2")))
	must(t, w.Set("a.strings", ArrayOf([]string{"one", "", "three"})))
	must(t, w.Set("a.nested", ArrayOfArrays(ArrayOf([]uint16{1, 2}), ArrayOf([]string{"x"}), ArrayOfArrays())))
	must(t, w.Set("a.bool", Of(true)))
	must(t, w.Set("a.float", Of(float32(0.5))))
	must(t, w.Set(keyAlignment, Of(uint32(64))))
	must(t, w.Add("token_embd.weight", format.F32, []uint64{4, 2}, Bytes(seeded(32, 1))))
	must(t, w.Add("blk.0.attn_q.weight", format.Q4_0, []uint64{32, 2}, Bytes(seeded(36, 2))))
	file, err := w.Marshal()
	must(t, err)
	read := 0
	for i := range file {
		for _, flip := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
			b := bytes.Clone(file)
			b[i] ^= flip
			f, err := parseWithin(t, "file", b)
			if err != nil {
				var e *Error
				if !errors.As(err, &e) || e.Kind == nil || e.File != "file" {
					t.Fatalf("byte %d: error %#v is not an *Error with a kind", i, err)
				}
				continue
			}
			read++
			exercise(f)
		}
	}
	if read == 0 || read == 9*len(file) {
		t.Errorf("%d of %d damaged files were read", read, 9*len(file))
	}
}

// TestCuts: a file that ends anywhere before its end is refused, whatever the place.
func TestCuts(t *testing.T) {
	for file, b := range map[string][]byte{"control": hostileFiles(t)["valid-control"], "small": smallFile(t)} {
		for n := range b {
			if _, err := parseWithin(t, "file", b[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are read as a file", file, n, len(b))
			} else if n >= 4 && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCount) {
				t.Errorf("%s: the first %d bytes: %v", file, n, err)
			}
		}
	}
}

func smallFile(t testing.TB) []byte {
	w := NewWriter()
	must(t, w.Set("a.strings", ArrayOf([]string{"one", "", "three"})))
	must(t, w.Set("a.nested", ArrayOfArrays(ArrayOf([]uint16{1, 2}), ArrayOf([]string{"x"}))))
	must(t, w.Add("a", format.F32, []uint64{4, 2}, Bytes(seeded(32, 1))))
	must(t, w.Add("b", format.Q4_0, []uint64{32, 2}, Bytes(seeded(36, 2))))
	b, err := w.Marshal()
	must(t, err)
	return bytes.TrimRight(b, "\x00") // the padding after the last tensor may be absent
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// exercise calls all that a reader may call on what was read.
func exercise(f *File) {
	for key, v := range f.Meta.All() {
		_ = v.String()
		_ = v.Any()
		_, _ = f.Meta.String(key)
		_, _ = f.Meta.Uint(key)
		_, _ = f.Meta.Int(key)
		_, _ = f.Meta.Float(key)
		_, _ = f.Meta.Bool(key)
		_, _ = f.Meta.Strings(key)
		_, _ = f.Meta.Ints(key)
		_, _ = f.Meta.Uints(key)
		_, _ = f.Meta.Floats(key)
		_, _ = f.Meta.Bools(key)
	}
	var sum byte
	for _, t := range f.Tensors {
		if int64(len(t.Data())) != t.SizeBytes || t.RowBytes()*t.Rows() != len(t.Data()) {
			panic("BUG: " + t.String())
		}
		for _, b := range t.Data() {
			sum += b
		}
		_ = t.Row(t.Rows() - 1)
	}
	_ = sum
}

// TestWriterRefuses: what a reader would refuse is refused while it is written, and nothing follows.
func TestWriterRefuses(t *testing.T) {
	four := []uint64{4}
	tests := []struct {
		name string
		do   func(*Writer) error
		want outcome
	}{
		{"version 1", func(w *Writer) error { return w.SetVersion(1) }, outcome{ErrVersion, []string{"version is 1"}}},
		{"empty key", func(w *Writer) error { return w.Set("", Of(true)) }, outcome{ErrName, []string{"1 to 65535"}}},
		{"key twice", func(w *Writer) error { w.Set("a", Of(true)); return w.Set("a", Of(true)) }, outcome{ErrDuplicate, []string{`metadata "a"`}}},
		{"alignment 24", func(w *Writer) error { return w.Set(keyAlignment, Of(uint32(24))) }, outcome{ErrAlignment, []string{"is 24", "power of two"}}},
		{"nested too deep", func(w *Writer) error {
			v := ArrayOf([]uint8{1})
			for range MaxNesting {
				v = ArrayOfArrays(v)
			}
			return w.Set("a", v)
		}, outcome{ErrValue, []string{"more than 8 deep"}}},
		{"name of 64 bytes", func(w *Writer) error { return w.Add(strings.Repeat("n", 64), format.F32, four, nil) }, outcome{ErrName, []string{"1 to 63 bytes"}}},
		{"tensor twice", func(w *Writer) error { w.Add("a", format.F32, four, nil); return w.Add("a", format.F32, four, nil) }, outcome{ErrDuplicate, []string{`tensor "a"`}}},
		{"no such type", func(w *Writer) error { return w.Add("a", 255, four, nil) }, outcome{ErrTensorType, []string{"type is 255"}}},
		{"5 dimensions", func(w *Writer) error { return w.Add("a", format.F32, []uint64{1, 1, 1, 1, 1}, nil) }, outcome{ErrDims, []string{"is 5"}}},
		{"dimension 0", func(w *Writer) error { return w.Add("a", format.F32, []uint64{4, 0}, nil) }, outcome{ErrDims, []string{"dimension 1 is 0"}}},
		{"row of 100", func(w *Writer) error { return w.Add("a", format.Q4K, []uint64{100}, nil) }, outcome{ErrDims, []string{"shape is [100]", "256"}}},
		{"bytes wrap", func(w *Writer) error { return w.Add("a", format.F32, []uint64{1 << 62}, nil) }, outcome{ErrOverflow, nil}},
		{"sum wraps", func(w *Writer) error {
			for _, n := range []string{"a", "b", "c"} {
				must(t, w.Add(n, format.I8, []uint64{1 << 62}, nil))
			}
			_, err := w.SizeBytes()
			return err
		}, outcome{ErrOverflow, []string{`tensor "b"`}}},
		{"source gives too little", func(w *Writer) error {
			must(t, w.Add("a", format.F32, four, Bytes(make([]byte, 15))))
			return w.Write(t.Context(), io.Discard, nil)
		}, outcome{ErrTruncated, []string{`tensor "a" has 16 bytes and its source gave 15`}}},
		{"source gives too much", func(w *Writer) error {
			must(t, w.Add("a", format.F32, four, Bytes(make([]byte, 17))))
			return w.Write(t.Context(), io.Discard, nil)
		}, outcome{ErrCount, []string{`tensor "a" has 16 bytes and its source gave more`}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWriter()
			err := test.do(w)
			if !errors.Is(err, test.want.kind) {
				t.Fatalf("got %v, want kind %v", err, test.want.kind)
			}
			for _, s := range test.want.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
		})
	}
	w := NewWriter()
	first := w.Set("", Of(true))
	if err := w.Add("a", format.F32, four, Bytes(make([]byte, 16))); err != first {
		t.Errorf("after a refusal, Add gives %v", err)
	}
	if _, err := w.Marshal(); err != first {
		t.Errorf("after a refusal, Marshal gives %v", err)
	}
}

// TestWriteFile: the file at the path is the old or the new one, whole; nothing else is left in the folder.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	build := func(size uint64, source Source) *Writer {
		w := NewWriter()
		must(t, w.Add("a", format.I8, []uint64{size}, source))
		return w
	}
	only := func(want string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		must(t, err)
		if len(entries) != 1 || entries[0].Name() != "model.gguf" {
			t.Errorf("the folder holds %v", entries)
		}
		f, err := Open(path)
		must(t, err)
		defer f.Close()
		if got := string(f.Tensors[0].Data()); got != want {
			t.Errorf("the file holds %q, want %q", got, want)
		}
	}
	must(t, build(3, Bytes([]byte("old"))).WriteFile(t.Context(), path, nil))
	only("old")

	boom := errors.New("boom")
	err := build(8, func(_ context.Context, w io.Writer) error { w.Write([]byte("half")); return boom }).WriteFile(t.Context(), path, nil)
	if !errors.Is(err, boom) {
		t.Errorf("a failing source gives %v", err)
	}
	only("old")

	ctx, cancel := context.WithCancel(t.Context())
	err = build(8, func(_ context.Context, w io.Writer) error {
		cancel()
		_, err := w.Write([]byte("complete"))
		return err
	}).WriteFile(ctx, path, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled write gives %v", err)
	}
	only("old")

	var seen []int64
	must(t, build(8, Bytes([]byte("complete"))).WriteFile(t.Context(), path, func(done, total int64) { seen = append(seen, done, total) }))
	only("complete")
	info, err := os.Stat(path)
	must(t, err)
	if n := len(seen); n < 4 || seen[0] != 0 || seen[n-2] != info.Size() || seen[n-1] != info.Size() || !slices.IsSorted(everySecond(seen)) {
		t.Errorf("progress was %v for %d bytes", seen, info.Size())
	}

	for path, says := range map[string]string{dir: "it is a folder", filepath.Join(dir, "no", "model.gguf"): "no such file or directory"} {
		err := build(3, Bytes([]byte("new"))).WriteFile(t.Context(), path, nil)
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("writing to %s gives %v", path, err)
		}
	}
}

func everySecond(s []int64) (out []int64) {
	for i := 0; i < len(s); i += 2 {
		out = append(out, s[i])
	}
	return out
}
