package gguf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/format"
)

// TestOpenWhatIsNoModel: whatever a path is, one sentence says so within a second, with the path and the system's reason.
func TestOpenWhatIsNoModel(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		must(t, os.WriteFile(at(name), []byte(text), 0o644))
		return at(name)
	}
	write("file", "text")
	type test struct {
		name, path string
		kind       error
		says       string
	}
	tests := []test{
		{"absent", at("absent.gguf"), fs.ErrNotExist, "the model cannot be opened: no such file or directory"},
		{"no name", "", fs.ErrNotExist, "no such file"},
		{"a folder", dir, ErrFile, "the model is a folder, not a file"},
		{"empty", write("empty.gguf", ""), ErrTruncated, "the file is empty"},
		{"text", write("text.gguf", "Hello there, model!\n"), ErrMagic, `not a GGUF file: it begins with "Hello there, mod"`},
		{"spaces and % in the name", at("my %d model %s.gguf"), fs.ErrNotExist, "my %d model %s.gguf: the model cannot be opened"},
		{"below a file", at("file/model.gguf"), ErrFile, "not a directory"},
	}
	if runtime.GOOS != "windows" {
		must(t, os.Symlink("nowhere.gguf", at("broken.gguf")))
		must(t, os.Symlink("loop.gguf", at("loop.gguf")))
		tests = append(tests,
			test{"a broken link", at("broken.gguf"), fs.ErrNotExist, `it is a link to "nowhere.gguf": no such file or directory`},
			test{"a link to itself", at("loop.gguf"), ErrFile, "too many levels of symbolic links"},
			test{"a device", os.DevNull, ErrFile, "the model is a device, not a file"})
		if l, err := net.Listen("unix", at("socket")); err == nil {
			defer l.Close()
			tests = append(tests, test{"a socket", at("socket"), ErrFile, "the model is a socket, not a file"})
		}
	}
	if fifo(at("pipe.gguf")) == nil {
		tests = append(tests, test{"a named pipe", at("pipe.gguf"), ErrFile, "the model is a named pipe, not a file"})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			f, err := Open(test.path)
			if f != nil || !errors.Is(err, test.kind) {
				t.Fatalf("got %v, %v, want kind %v", f, err, test.kind)
			}
			if took := time.Since(start); took > mostTime {
				t.Errorf("took %v", took)
			}
			if s := err.Error(); !strings.HasPrefix(s, test.path+": ") || !strings.Contains(s, test.says) || strings.Contains(s, "\n") {
				t.Errorf("error %q, want it to begin with the path and say %q", s, test.says)
			}
		})
	}
	t.Run("no permission", func(t *testing.T) {
		path := write("secret.gguf", "GGUF")
		must(t, os.Chmod(path, 0))
		var err error
		asNobody(t, func() { _, err = Open(path) })
		if !errors.Is(err, fs.ErrPermission) || err.Error() != path+": the model cannot be opened: permission denied" {
			t.Errorf("got %v", err)
		}
	})
}

// TestOpenAndClose: a mapped file reads as the same bytes in memory do, and lets go of its slices.
func TestOpenAndClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my %d model.gguf")
	b := smallFile(t)
	must(t, os.WriteFile(path, b, 0o644))
	f, err := Open(path)
	must(t, err)
	for _, a := range []Advice{Normal, Sequential, Random, WillNeed} {
		must(t, f.Advise(a))
	}
	in, err := Parse(path, b)
	must(t, err)
	for i, tensor := range f.Tensors {
		if string(tensor.Data()) != string(in.Tensors[i].Data()) {
			t.Errorf("%v differs", tensor)
		}
	}
	if f.SizeBytes() != int64(len(b)) || f.TensorBytes() != 32+36 {
		t.Errorf("%d bytes, of tensors %d", f.SizeBytes(), f.TensorBytes())
	}
	if _, err := f.Need("a", 4, 2); err != nil {
		t.Error(err)
	}
	if _, err := f.Need("a", 2, 4); !errors.Is(err, ErrDims) || err.Error() != path+`: tensor "a": shape is [4, 2]: this model needs [2, 4]` {
		t.Errorf("wrong shape: %v", err)
	}
	if _, err := f.Need("c"); !errors.Is(err, ErrMissing) || err.Error() != path+`: tensor "c" is missing: this model needs it` {
		t.Errorf("missing tensor: %v", err)
	}
	must(t, f.Close())
	must(t, f.Close())
	if f.Tensors[0].Data() != nil {
		t.Error("a closed file still gives its bytes")
	}
}

// TestPrefault: every byte of the tensors is reported once, and a context ends it.
func TestPrefault(t *testing.T) {
	const size = 3*prefaultStepBytes + 1000
	path := filepath.Join(t.TempDir(), "model.gguf")
	w := NewWriter()
	must(t, w.Add("a", format.I8, []uint64{7}, Bytes(make([]byte, 7))))
	must(t, w.Add("b", format.I8, []uint64{size}, Bytes(make([]byte, size))))
	must(t, w.WriteFile(t.Context(), path, nil))
	mapped, err := Open(path)
	must(t, err)
	defer mapped.Close()
	b, err := w.Marshal()
	must(t, err)
	inMemory, err := Parse("memory", b)
	must(t, err)
	for _, f := range []*File{mapped, inMemory} {
		var last, calls int64
		must(t, f.Prefault(t.Context(), func(done, total int64) {
			if total != size+7 || done < last || calls == 0 && done != 0 {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
			calls++
		}))
		if last != size+7 || calls != 6 {
			t.Errorf("%d calls, the last with %d", calls, last)
		}
		must(t, f.Prefault(t.Context(), nil))
		ctx, cancel := context.WithCancel(t.Context())
		if err := f.Prefault(ctx, func(done, _ int64) {
			if done > 7 {
				cancel()
			}
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("after cancelling: %v", err)
		}
	}
}

// TestBeyond4GiB: a valid file with a tensor at an offset that 32 bits do not hold is read; it takes no room, being a hole.
func TestBeyond4GiB(t *testing.T) {
	const far = 15038670688
	if far%DefaultAlignment != 0 {
		t.Fatal("the offset is not aligned")
	}
	r := head(2, 0).tensor("t", format.F32, 0, 4).tensor("far", format.F32, far, 4).data(16)
	start := len(r.b) - 16
	path := filepath.Join(t.TempDir(), "large.gguf")
	must(t, os.WriteFile(path, r.b, 0o644))
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	want := []byte("sixteen bytes!!!")
	if _, err := out.WriteAt(want, int64(start)+far); err != nil {
		t.Skipf("no large file can be made here: %v", err)
	}
	must(t, out.Close())
	f, err := Open(path)
	must(t, err)
	defer f.Close()
	tensor, _ := f.Tensor("far")
	if string(tensor.Data()) != string(want) || tensor.Offset != int64(start)+far {
		t.Errorf("the tensor at %d holds %q", tensor.Offset, tensor.Data())
	}
	must(t, os.Truncate(path, int64(start)+far+15))
	if _, err := Open(path); !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), "offset is 15038670688") || !strings.Contains(err.Error(), "has 15") {
		t.Errorf("one byte short: %v", err)
	}
}

// splitModel writes a model of three tensors in three parts.
func splitModel(t *testing.T, dir string) []string {
	t.Helper()
	w := NewWriter()
	must(t, w.Set("general.architecture", Of("qwen2")))
	for _, n := range []string{"a", "b", "c"} {
		must(t, w.Add(n, format.I8, []uint64{3}, Bytes([]byte(n+n+n))))
	}
	paths, err := w.WriteSplit(t.Context(), filepath.Join(dir, "big model"), Split{MaxTensors: 1}, nil)
	must(t, err)
	return paths
}

func TestSplit(t *testing.T) {
	dir := t.TempDir()
	paths := splitModel(t, dir)
	if want := filepath.Join(dir, "big model-00002-of-00003.gguf"); len(paths) != 3 || paths[1] != want {
		t.Fatalf("parts %q", paths)
	}
	for _, path := range paths {
		f, err := Open(path)
		must(t, err)
		if arch, err := f.Meta.String("general.architecture"); err != nil || arch != "qwen2" {
			t.Errorf("%s: the metadata is not the first part's: %q, %v", path, arch, err)
		}
		for i, n := range []string{"a", "b", "c"} {
			if tensor := f.Tensors[i]; tensor.Name != n || tensor.Part != i || string(tensor.Data()) != n+n+n {
				t.Errorf("%s: tensor %d is %v in part %d", path, i, tensor, tensor.Part)
			}
		}
		var done int64
		must(t, f.Prefault(t.Context(), func(d, _ int64) { done = d }))
		if done != 9 {
			t.Errorf("prefaulted %d bytes", done)
		}
		must(t, f.Close())
	}
}

// TestSplitRefuses damages a split model in one way each.
func TestSplitRefuses(t *testing.T) {
	part := func(no, count int, tensors int32, names ...string) []byte {
		w := NewWriter()
		must(t, w.Set(keySplitNo, Of(uint16(no))))
		must(t, w.Set(keySplitCount, Of(uint16(count))))
		must(t, w.Set(keySplitTensors, Of(tensors)))
		for _, n := range names {
			must(t, w.Add(n, format.I8, []uint64{3}, Bytes([]byte(n+n+n))))
		}
		b, err := w.Marshal()
		must(t, err)
		return b
	}
	replace := func(i int, b []byte) func([]string) error {
		return func(paths []string) error { return os.WriteFile(paths[i], b, 0o644) }
	}
	tests := []struct {
		name string
		do   func(paths []string) error
		open int
		kind error
		says string
	}{
		{"second part missing", func(p []string) error { return os.Remove(p[1]) }, 0, ErrSplit,
			"is part 1 of 3 of a split model: part 2 is missing: "},
		{"first part missing", func(p []string) error { return os.Remove(p[0]) }, 2, fs.ErrNotExist, "part 1 is missing"},
		{"second part renamed", func(p []string) error { return os.Rename(p[1], p[1]+".part") }, 0, ErrSplit, "00002-of-00003.gguf"},
		{"a part twice", replace(1, part(0, 3, 3, "a")), 0, ErrSplit, "holds part 1: its name says part 2"},
		{"a part of another model", replace(1, part(1, 4, 4, "b")), 0, ErrSplit, "says that it is one of 4 parts"},
		{"no part at all", replace(1, smallFile(t)), 0, ErrSplit, "says that it is one of 1 parts"},
		{"a tensor twice", replace(1, part(1, 3, 3, "a")), 0, ErrDuplicate, `tensor "a" is in `},
		{"a tensor less", replace(1, part(1, 3, 3)), 0, ErrSplit, "is 3: the 3 parts hold 2 tensors"},
		{"a part cut", func(p []string) error { return os.Truncate(p[1], 100) }, 0, ErrTruncated, "00002-of-00003.gguf: "},
		{"a part empty", func(p []string) error { return os.Truncate(p[1], 0) }, 0, ErrTruncated, "00002-of-00003.gguf: the file is empty"},
		{"a part is a folder", func(p []string) error { return errors.Join(os.Remove(p[1]), os.Mkdir(p[1], 0o755)) }, 0, ErrFile, "is a folder"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			paths := splitModel(t, t.TempDir())
			must(t, test.do(paths))
			f, err := Open(paths[test.open])
			if f != nil || !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want kind %v saying %q", err, test.kind, test.says)
			}
		})
	}
	paths := splitModel(t, t.TempDir())
	for _, name := range []string{"other.gguf", "big model-00009-of-00003.gguf", "big model-00001-of-00004.gguf"} {
		renamed := filepath.Join(filepath.Dir(paths[0]), name)
		must(t, os.Link(paths[0], renamed))
		if _, err := Open(renamed); !errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), "it should be called NAME-00001-of-00003.gguf") {
			t.Errorf("the first part as %s: %v", name, err)
		}
	}
	// A claim of many parts costs nothing: the first one that is absent ends it.
	path := PartPath(filepath.Join(t.TempDir(), "m"), 0, MaxParts)
	must(t, os.WriteFile(path, part(0, MaxParts, 1, "a"), 0o644))
	if _, err := Open(path); !errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), "part 2 is missing") {
		t.Errorf("%d parts: %v", MaxParts, err)
	}
}

// TestGetters: each getter takes its types alone, and names key, found type and wanted type otherwise.
func TestGetters(t *testing.T) {
	w := NewWriter()
	must(t, w.Set("u", Of(uint8(200))))
	must(t, w.Set("i", Of(int16(-3))))
	must(t, w.Set("big", Of(uint64(1<<63))))
	must(t, w.Set("f", Of(float32(0.5))))
	must(t, w.Set("b", Of(true)))
	must(t, w.Set("s", Of("text")))
	must(t, w.Set("ss", ArrayOf([]string{"a", "", "c"})))
	must(t, w.Set("is", ArrayOf([]int32{1, -2})))
	must(t, w.Set("fs", ArrayOf([]float64{1.5})))
	must(t, w.Set("bs", ArrayOf([]bool{true, false})))
	must(t, w.Set("none", ArrayOf([]string{})))
	b, err := w.Marshal()
	must(t, err)
	f, err := Parse("m.gguf", b)
	must(t, err)
	m := f.Meta
	get := map[string]func(string) (any, error){
		"String":  func(k string) (any, error) { return m.String(k) },
		"Uint":    func(k string) (any, error) { return m.Uint(k) },
		"Int":     func(k string) (any, error) { return m.Int(k) },
		"Float":   func(k string) (any, error) { return m.Float(k) },
		"Bool":    func(k string) (any, error) { return m.Bool(k) },
		"Strings": func(k string) (any, error) { return m.Strings(k) },
		"Ints":    func(k string) (any, error) { return m.Ints(k) },
		"Uints":   func(k string) (any, error) { return m.Uints(k) },
		"Floats":  func(k string) (any, error) { return m.Floats(k) },
		"Bools":   func(k string) (any, error) { return m.Bools(k) },
	}
	want := map[string]map[string]string{ // getter -> key -> what it gives
		"String":  {"s": "text"},
		"Uint":    {"u": "200", "big": "9223372036854775808"},
		"Int":     {"u": "200", "i": "-3"},
		"Float":   {"f": "0.5"},
		"Bool":    {"b": "true"},
		"Strings": {"ss": "[a  c]", "none": "[]"},
		"Ints":    {"is": "[1 -2]"},
		"Uints":   {},
		"Floats":  {"fs": "[1.5]"},
		"Bools":   {"bs": "[true false]"},
	}
	for getter, g := range get {
		for _, key := range m.Keys() {
			v, err := g(key)
			expect, ok := want[getter][key]
			switch {
			case ok && (err != nil || fmt.Sprint(v) != expect):
				t.Errorf("%s(%q) = %v, %v, want %s", getter, key, v, err, expect)
			case !ok && !errors.Is(err, ErrValueType) && !errors.Is(err, ErrValue):
				t.Errorf("%s(%q) = %v, %v, want a refusal", getter, key, v, err)
			}
		}
		if _, err := g("absent"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), `m.gguf: metadata "absent" is missing: this model needs it, as `) {
			t.Errorf("%s of an absent key: %v", getter, err)
		}
	}
	_, err = m.Uint("s")
	if p, _ := m.find("s"); err == nil || err.Error() != fmt.Sprintf(`m.gguf: metadata "s" is of type string at byte %d: wanted is an integer that is not negative`, p.offset) {
		t.Errorf("got %v", err)
	}
	if _, err := m.Uint("i"); !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), `metadata "i" is -3 at byte`) {
		t.Errorf("got %v", err)
	}
	if _, err := m.Strings("is"); !strings.Contains(err.Error(), "is of type array of 2 i32") {
		t.Errorf("got %v", err)
	}
	if v, err := m.UintOr("absent", 7); v != 7 || err != nil {
		t.Errorf("UintOr: %v, %v", v, err)
	}
	if _, err := m.FloatOr("s", 7); !errors.Is(err, ErrValueType) {
		t.Errorf("a wrong type is taken for an absent key: %v", err)
	}
	if _, err := m.UintIn("u", 1, 199); !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), "is 200 at byte") || !strings.Contains(err.Error(), "from 1 to 199") {
		t.Errorf("UintIn: %v", err)
	}
	if v, err := m.UintIn("u", 1, 200); v != 200 || err != nil {
		t.Errorf("UintIn: %v, %v", v, err)
	}
	var none *Meta
	if _, err := none.String("a"); !errors.Is(err, ErrMissing) || none.Len() != 0 || len(none.Keys()) != 0 {
		t.Errorf("a nil Meta: %v", err)
	}
	made := NewMeta("made", map[string]Value{"b": Of(uint32(2)), "a": Of("x")})
	if v, err := made.Uint("b"); v != 2 || err != nil || strings.Join(made.Keys(), "") != "ab" {
		t.Errorf("NewMeta: %v, %v, %v", v, err, made.Keys())
	}
}
