package conform

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/minfer/minfer/generated/conform"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// job is one launch with its judges.
type job struct {
	name  string
	query kernel.Query
	// args holds the kernel's arguments by name: a []byte, []float32 or []int32 is a buffer of exactly that content, an int, int64 or
	// float32 a scalar, nil a null pointer. The argument that the kernel writes holds what is there before.
	args map[string]any
	// check holds the output against the reference. It returns the largest error over its tolerance.
	check func(out []byte) (worst float64, err error)
	// also, if not nil, judges what the kernel writes beside its output, by argument, before check is called.
	also func(after map[string][]byte) error
	// cells judges the coverage; nil: every cell exactly once.
	cells func(c gpu.Coverage) error
}

// bench runs the jobs of a subject on a driver.
type bench struct {
	driver  gpu.Driver
	subject *Subject
	report  *Report
}

func (b *bench) fail(judge, job, format string, args ...any) {
	b.report.Failures = append(b.report.Failures, Failure{b.subject.Variant.String(), job, judge, fmt.Sprintf(format, args...)})
}

// run launches a job, and the variants that must agree with it, and judges.
func (b *bench) run(j *job) {
	if debug {
		fmt.Println(b.subject.Variant, j.name)
	}
	out, ok := b.launch(b.subject.Variant, j)
	if !ok {
		return
	}
	worst, err := j.check(out)
	if err != nil {
		b.fail("value", j.name, "%v", err)
	}
	if worst > b.report.Worst {
		b.report.Worst, b.report.WorstAt = worst, b.subject.Variant.String()+": "+j.name
	}
	for _, name := range b.subject.Variant.SameBits {
		for i := range b.subject.Entry.Steps {
			other := &b.subject.Entry.Steps[i]
			if other.Variant.Name != name || other.Refuse(&j.query) >= 0 {
				continue
			}
			if same, ok := b.launch(other.Variant, j); ok && !bytes.Equal(out, same) {
				i := 0
				for out[i] == same[i] {
					i++
				}
				b.fail("bits", j.name, "byte %d differs from %s, which must give the same bits", i, other.Variant)
			}
		}
	}
}

// overlapArch is the first architecture that overlaps a launch with the end of its predecessor.
const overlapArch = 90

// launch runs the job on a variant and returns what it wrote. The judges of the launch itself have spoken when ok is false.
func (b *bench) launch(v *kernel.Variant, j *job) (out []byte, ok bool) {
	l := gpu.Launch{Kernel: v.Symbol, Grid: v.Grid(&j.query), Block: [3]uint32{v.Threads, 1, 1}, SharedBytes: v.Shared(&j.query),
		Dependent: v.Awaits && b.driver.Info().Arch >= overlapArch}
	var buffers []*buffer
	var written *buffer
	beside := map[*buffer]bool{} // what it writes beside its output
	defer func() {
		for _, m := range buffers {
			if err := b.driver.Free(m.base); err != nil && ok {
				b.fail("canary", j.name, "%s: %v", m.name, err)
				ok = false
			}
		}
	}()
	for _, a := range v.Args {
		value, bound := j.args[a.Name]
		if !bound {
			panic(fmt.Sprintf("BUG: %s takes %s, which the job %s does not bind", v, a.Name, j.name))
		}
		if !strings.HasSuffix(a.Type, "*") {
			l.Args = append(l.Args, scalar(a, value))
			continue
		}
		content := contentOf(value)
		if len(content) == 0 {
			l.Args = append(l.Args, gpu.PointerArg(0))
			continue
		}
		m, err := b.upload(a.Name, content)
		if err != nil {
			b.fail("fault", j.name, "%s: %v", a.Name, err)
			return nil, false
		}
		buffers = append(buffers, m)
		if a.Out {
			if written != nil && j.also != nil {
				beside[written] = true
			}
			written = m
		}
		l.Args = append(l.Args, gpu.PointerArg(m.at))
	}
	geometry := b.subject.Geometry
	if v != b.subject.Variant {
		geometry = conform.Kernels[v.Symbol]
	}
	rows, units, tokens := geometry.Cells(&j.query)
	witness, counts := b.driver.(gpu.Witness)
	if counts {
		if err := witness.StartWitness(gpu.CoverSpace{Rows: rows, Units: units, Tokens: tokens}); err != nil {
			b.fail("witness", j.name, "%v", err)
			return nil, false
		}
	}
	b.report.Launches++
	err := errors.Join(b.driver.Launch(l), b.driver.Sync())
	ok = err == nil
	if err != nil {
		b.fail("fault", j.name, "%v", err)
	}
	if counts {
		c, err := witness.StopWitness()
		switch {
		case !ok:
		case err != nil:
			b.fail("witness", j.name, "%v", err)
			ok = false
		default:
			b.report.Cells += c.Space.Cells()
			judge := j.cells
			if judge == nil {
				judge = gpu.Coverage.Exact
			}
			if err := judge(c); err != nil {
				b.fail("witness", j.name, "%v", err) // the values have their own judge
			}
		}
	}
	if !ok {
		return nil, false
	}
	after := map[string][]byte{}
	for _, m := range buffers {
		now, err := b.download(m)
		if err != nil {
			b.fail("canary", j.name, "%v", err)
			return nil, false
		}
		if m == written {
			out = now
		} else if beside[m] {
			after[m.name] = now
		} else if !bytes.Equal(now, m.content) {
			b.fail("canary", j.name, "the kernel changed its input %s", m.name)
			return nil, false
		}
	}
	if j.also != nil {
		if err := j.also(after); err != nil {
			b.fail("value", j.name, "%v", err)
			return nil, false
		}
	}
	return out, true
}

// buffer is device memory with known content. On the emulator it ends where the content ends and the emulator watches its
// surroundings; elsewhere the surroundings are part of the allocation.
type buffer struct {
	name     string
	base, at gpu.Pointer
	content  []byte
}

// surroundBytes lie before and after a buffer where the driver has no canaries of its own.
const surroundBytes = 256

const canary = 0xc5

func (b *bench) upload(name string, content []byte) (*buffer, error) {
	around := int64(surroundBytes)
	if b.driver.Info().Emulated {
		around = 0
	}
	base, err := b.driver.Alloc(int64(len(content)) + 2*around)
	if err != nil {
		return nil, err
	}
	m := &buffer{name, base, base + gpu.Pointer(around), content}
	if around > 0 {
		err = errors.Join(b.driver.Fill(m.base, canary, around), b.driver.Fill(m.at+gpu.Pointer(len(content)), canary, around))
	}
	return m, errors.Join(err, b.driver.Upload(m.at, content))
}

// download is the content now; an error if the surroundings changed.
func (b *bench) download(m *buffer) ([]byte, error) {
	data := make([]byte, len(m.content))
	if err := b.driver.Download(data, m.at); err != nil || m.base == m.at {
		return data, err
	}
	for _, from := range []gpu.Pointer{m.base, m.at + gpu.Pointer(len(m.content))} {
		var edge [surroundBytes]byte
		if err := b.driver.Download(edge[:], from); err != nil {
			return nil, err
		}
		for i, x := range edge {
			if x != canary {
				return nil, fmt.Errorf("the byte at %d of %s, which has %d, was written", int64(from)+int64(i)-int64(m.at), m.name, len(m.content))
			}
		}
	}
	return data, nil
}

func scalar(a kernel.Arg, value any) gpu.Arg {
	switch x := value.(type) {
	case float32:
		if a.Type == "f32" {
			return gpu.F32(x)
		}
	case int64:
		switch a.Type {
		case "i32":
			return gpu.I32(int32(x))
		case "u32":
			return gpu.U32(uint32(x))
		case "i64":
			return gpu.I64(x)
		}
	}
	panic(fmt.Sprintf("BUG: argument %s is %s, bound to a %T", a.Name, a.Type, value))
}

func contentOf(value any) []byte {
	switch x := value.(type) {
	case nil:
		return nil
	case []byte:
		return x
	case []float32:
		return floatBytes(x)
	case []int32:
		b := make([]byte, 4*len(x))
		for i, v := range x {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
		}
		return b
	}
	panic(fmt.Sprintf("BUG: a buffer of %T", value))
}

func floatBytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

func floatsOf(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// untouched is a NaN that no arithmetic gives: an output that still holds it was not written.
const untouchedBits = 0xffc5c5c5

// nans is an output of n numbers before a launch.
func nans(n int64) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], untouchedBits)
	}
	return b
}

// number is element i of an output; an error if nothing was written there.
func number(out []byte, i int64) (float32, error) {
	bits := binary.LittleEndian.Uint32(out[4*i:])
	if bits == untouchedBits {
		return 0, fmt.Errorf("element %d was not written", i)
	}
	return math.Float32frombits(bits), nil
}
