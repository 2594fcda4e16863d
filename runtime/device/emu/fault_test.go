package emu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// wantError checks that err is of a kind and says all of the words.
func wantError(t *testing.T, what string, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v; want %v", what, err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v\ndoes not say %q", what, err, w)
		}
	}
}

func TestMemoryFaults(t *testing.T) {
	d := open(t)
	y := space[float32](t, d, 64)
	w, odd := space[byte](t, d, 4096), space[byte](t, d, 100) // the end of odd is not the end of its page
	gone := space[byte](t, d, 64)
	read := func(kernel string, p gpu.Pointer, offset int64) gpu.Launch {
		return one(kernel, 32, ptr(p), ptr(y), gpu.I64(offset))
	}
	write := func(p gpu.Pointer, offset int64) gpu.Launch { return one("plain_write", 32, ptr(p), gpu.I64(offset)) }
	dynamic := one("dynamic_overrun", 32, ptr(y), gpu.I32(8))
	dynamic.SharedBytes = 28
	deep := many("deep_stack", 1, 32, ptr(y), gpu.I32(50000))
	reads, writes := "", "" // not every system says which of them it was
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		reads, writes = "reads ", "writes "
	}
	type fault struct {
		launch gpu.Launch
		words  []string // none: it is no fault
	}
	cases := map[string]fault{
		"last byte":                     {read("plain_read", w, 4095), nil},
		"one byte past":                 {read("plain_read", w, 4096), []string{"plain_read (grid 1x1x1, block 32x1x1", "thread (5,0,0)", reads + "1 byte past the end of buffer w (argument 0, 4096 bytes)"}},
		"100 bytes past":                {read("plain_read", w, 4195), []string{"100 bytes past the end of buffer w"}},
		"far in front":                  {read("plain_read", w, -1<<36), []string{"far from any buffer", "before the start of "}},
		"null":                          {read("plain_read", 0, 8), []string{"address 0x8, near the null pointer"}},
		"write past":                    {write(w, 4096), []string{writes + "1 byte past the end of buffer w (argument 0, 4096 bytes)"}},
		"write into the slack":          {write(odd, 101), []string{"wrote 2 bytes past the end of buffer w (argument 0, 100 bytes)"}},
		"write in front":                {write(odd, -3), []string{"wrote 3 bytes before the start of buffer w"}},
		"wide, whole":                   {read("wide_read", w, 4080), nil},
		"wide, misaligned":              {read("wide_read", w, 8), []string{"faults.cu:13", "misaligned load16: the address must be a multiple of 16; it is byte 8 of buffer w"}},
		"wide, past":                    {read("wide_read", odd, 96), []string{"faults.cu:13", "load16 touches 12 bytes past the end of buffer w (argument 0, 100 bytes)"}},
		"wide, in front":                {read("wide_read", odd, -16), []string{"load16 touches 16 bytes before the start of buffer w"}},
		"byte in the slack":             {read("byte_read", odd, 100), []string{"load1 touches 1 byte past the end of buffer w"}},
		"byte, last":                    {read("byte_read", odd, 99), nil},
		"shared as global":              {one("wrong_space", 32, ptr(y), gpu.I32(0)), []string{"load4 is for global memory, but the address is in shared memory"}},
		"global as shared":              {one("wrong_space", 32, ptr(y), gpu.I32(1)), []string{"shared4 is for shared memory, but the address is in global memory"}},
		"local as global":               {one("wrong_space", 32, ptr(y), gpu.I32(2)), []string{"load4 touches a local variable"}},
		"shared, whole":                 {one("shared_overrun", 32, ptr(y), gpu.I32(7)), nil},
		"shared, past":                  {one("shared_overrun", 32, ptr(y), gpu.I32(8)), []string{"wrote past the end of shared array small (28 bytes)"}},
		"dynamic, past":                 {dynamic, []string{"wrote past the end of dynamic shared memory (28 bytes)"}},
		"stack":                         {deep, []string{"do not fit on the emulator's stack"}},
		"an odd bulk copy's bytes":      {one("odd_bulk", 32, ptr(w), ptr(y), gpu.I32(0), gpu.I32(24)), []string{"bulk_copy of 24 bytes: a positive multiple of 16"}},
		"an odd bulk copy's source":     {one("odd_bulk", 32, ptr(w), ptr(y), gpu.I32(1), gpu.I32(32)), []string{"misaligned bulk_copy from"}},
		"a bulk copy past its source":   {one("odd_bulk", 32, ptr(odd), ptr(y), gpu.I32(20), gpu.I32(32)), []string{"bulk_copy from touches 12 bytes past the end of buffer x"}},
		"a bulk copy past its target":   {one("odd_bulk", 32, ptr(w), ptr(y), gpu.I32(0), gpu.I32(272)), []string{"bulk_copy to touches shared memory outside"}},
		"a bulk copy as it should be":   {one("odd_bulk", 32, ptr(w), ptr(y), gpu.I32(4), gpu.I32(256)), nil},
		"a division that is no problem": {one("divide", 32, ptr(y), gpu.I32(2)), nil},
	}
	if runtime.GOARCH == "amd64" { // where a division by zero traps, and where there are addresses that cannot be
		cases["division by zero"] = fault{one("divide", 32, ptr(y), gpu.I32(0)), []string{"integer division by zero"}}
		cases["no address at all"] = fault{read("plain_read", w, 1<<62), []string{"an address that no buffer can have"}}
	}
	for name, c := range cases {
		err := d.Launch(c.launch)
		if c.words == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else {
			wantError(t, name, err, gpu.ErrFault, c.words...)
		}
	}
	if err := d.Free(gone); err != nil {
		t.Fatal(err)
	}
	wantError(t, "freed argument", d.Launch(read("plain_read", gone, 0)), gpu.ErrArgument, "argument 0 (w) points to 0x", "in no buffer")
	wantError(t, "reaching a freed buffer", d.Launch(read("plain_read", w, int64(gone)-int64(w))), gpu.ErrFault, reads+"byte 0 of a buffer of 64 bytes that is no argument and was freed")
	wantError(t, "second free", d.Free(gone), gpu.ErrArgument, "was freed before")
	wantError(t, "free within", d.Free(w+1), gpu.ErrArgument, "not the start of a buffer")

	// The lowest block that fails is named, however many threads run them.
	all := many("plain_read", 500, 32, ptr(w), ptr(y), gpu.I64(4096))
	for range 20 {
		wantError(t, "many blocks fail", d.Launch(all), gpu.ErrFault, "block (0,0,0)")
	}
}

func TestCopiesOutside(t *testing.T) {
	d := open(t)
	p := space[byte](t, d, 100)
	wantError(t, "upload", d.Upload(p+1, make([]byte, 100)), gpu.ErrArgument, "upload 100 bytes")
	wantError(t, "large upload", d.Upload(p, make([]byte, 1<<20)), gpu.ErrArgument)
	wantError(t, "download", d.Download(make([]byte, 101), p), gpu.ErrArgument, "download 101 bytes")
	wantError(t, "fill", d.Fill(p, 0, 101), gpu.ErrArgument, "fill 101 bytes")
	wantError(t, "nothing", mustFail(d.Alloc(0)), gpu.ErrArgument)
	wantError(t, "too much", mustFail(d.Alloc(1<<60)), gpu.ErrMemory)
	if err := d.Fill(p+90, 7, 10); err != nil {
		t.Error(err)
	}
	if got := download[byte](t, d, p, 100); got[89] == 7 || got[90] != 7 || got[99] != 7 {
		t.Error(got)
	}
	if err := errors.Join(d.Sync(), d.Free(p), d.Free(0)); err != nil {
		t.Error(err)
	}
}

func mustFail(p gpu.Pointer, err error) error {
	if err == nil {
		panic("BUG: it did not fail")
	}
	return err
}

func TestSynchronizationFaults(t *testing.T) {
	d := open(t)
	y, x := space[float32](t, d, 64), upload(t, d, randomFloats(256, 1))
	for _, c := range []struct {
		launch gpu.Launch
		words  []string
	}{
		{many("half_barrier", 3, 64, ptr(y)), []string{"block (0,0,0)", "deadlock",
			"threads 0-31: in mbar_wait for parity 0 of mbarrier 0 (phase 0 lacks 1 of 1 arrivals and 0 bytes), faults.cu:", "threads 32-63: at block_barrier, faults.cu:"}},
		{one("two_barriers", 64, ptr(y)), []string{"divergent block_barrier: this thread is here while others wait at that of faults.cu:"}},
		{one("split_warp", 32, ptr(y)), []string{"divergent warp collective", "shuffle_xor", "warp_sum"}},
		{one("not_a_member", 32, ptr(y)), []string{"lane 16 calls shuffle_xor with members 0x0000ffff, which leave it out"}},
		{one("part_warp_mma", 16, ptr(y)), []string{"mma_s8 needs a whole warp"}},
		{one("named_counts", 64, ptr(y)), []string{"named_barrier 3: this thread says"}},
		{one("forgetful_bulk", 64, ptr(x), ptr(y), gpu.I32(2)), []string{"no fence_async()"}},
		{one("forgetful_bulk", 64, ptr(x), ptr(y), gpu.I32(3)), []string{"ended with 1 bulk copies in flight"}},
		{one("forgetful_bulk", 64, ptr(x), ptr(y), gpu.I32(4)), []string{"deadlock: threads 0-63: in mbar_wait", "lacks 0 of 1 arrivals and 256 bytes"}},
		{one("forgetful_bulk", 64, ptr(x), ptr(y), gpu.I32(5)), []string{"not initialised"}},
		{one("forgetful_bulk", 64, ptr(x), ptr(y), gpu.I32(6)), []string{"bulk_copy to shared memory that another copy, still in flight, writes"}},
	} {
		// Both orders of threads; lane 16 is the first to be found in one of them.
		first, second := d.Launch(c.launch), d.Launch(c.launch)
		if c.launch.Kernel == "not_a_member" && !strings.Contains(first.Error(), "lane 16") {
			first, second = second, first
			wantError(t, c.launch.Kernel, second, gpu.ErrSync, "lane 31 calls")
			wantError(t, c.launch.Kernel, first, gpu.ErrSync, c.words...)
			continue
		}
		wantError(t, c.launch.Kernel, first, gpu.ErrSync, c.words...)
		wantError(t, c.launch.Kernel, second, gpu.ErrSync)
	}
	launch(t, d, one("forgetful_bulk", 64, ptr(x), ptr(y), gpu.I32(0))) // nothing of the failures stays
}

// TestMissingWaitsShow counts the wrong values of two launches, of which one runs its threads upwards and one downwards.
func TestMissingWaitsShow(t *testing.T) {
	d := open(t)
	data := randomFloats(256, 2)
	x := upload(t, d, data)
	var y gpu.Arg // stands for the output, fresh at each launch
	for _, c := range []struct {
		launch gpu.Launch
		want   func(i int) float32
		shows  string // what the wrong values are; "": there are none
	}{
		{one("forgetful_async", 64, ptr(x), y, gpu.I32(0)), func(i int) float32 { return data[4*(63-i)] }, ""},
		{one("forgetful_async", 64, ptr(x), y, gpu.I32(1)), func(i int) float32 { return data[4*(63-i)] }, "NaN"},
		{one("forgetful_async", 64, ptr(x), y, gpu.I32(2)), func(i int) float32 { return data[4*(63-i)] }, "0"}, // the other's copy has not started
		{one("forgetful_shared", 64, y, gpu.I32(0), gpu.I32(1)), func(int) float32 { return 1 }, ""},
		{one("forgetful_shared", 64, y, gpu.I32(1), gpu.I32(1)), func(int) float32 { return 1 }, "NaN"},
		{one("forgetful_shared", 64, y, gpu.I32(1), gpu.I32(-1)), func(int) float32 { return 1 }, "NaN"},
		{one("impatient_async", 32, ptr(x), y), func(i int) float32 { return data[4*i] }, "NaN"}, // the second 32
		{one("forgetful_bulk", 64, ptr(x), y, gpu.I32(0)), func(i int) float32 { return data[i] }, ""},
		{one("forgetful_bulk", 64, ptr(x), y, gpu.I32(1)), func(i int) float32 { return data[i] }, "NaN"},
	} {
		wrong := 0
		for range 2 {
			out := space[float32](t, d, 64)
			l := c.launch
			l.Args = slices.Clone(l.Args)
			l.Args[slices.Index(l.Args, y)] = ptr(out)
			launch(t, d, l)
			for i, v := range download[float32](t, d, out, 64) {
				if v != c.want(i) {
					wrong++
					if got := fmt.Sprint(v); got != c.shows {
						t.Errorf("%s %v: thread %d got %s", l.Kernel, l.Args, i, got)
					}
				}
			}
		}
		if (wrong > 0) != (c.shows != "") {
			t.Errorf("%s %v: %d wrong values", c.launch.Kernel, c.launch.Args, wrong)
		}
	}
}

// What kernels of warpgroups may do wrong (testdata/wgmma.cu): what is read or overwritten too early shows in the sums, and the rest is refused.
func TestWarpgroupFaults(t *testing.T) {
	d := open(t)
	for wrong, numbers := range map[int]int{1: 32, 2: 32, 3: 0} {
		w := newWarpgroups(t, d, 160, wrong)
		for range 2 {
			launch(t, d, w.Launch)
			same(t, fmt.Sprint("wrong ", wrong), download[float32](t, d, w.y, 128*160), w.want(numbers))
		}
	}
	const missing = "threads 0-63, 96-127: at named_barrier 15 (96 of 128 have come), wgmma.cu:"
	for wrong, c := range map[int]struct {
		kind error
		word string
	}{
		4:  {gpu.ErrFault, "misaligned wgmma_tile: the address must be a multiple of 1024; it is byte "},
		5:  {gpu.ErrSync, missing},
		6:  {gpu.ErrSync, "wgmma_bf16: 64 products are under way that nobody has waited for"},
		7:  {gpu.ErrSync, "of dynamic shared memory, which thread 0 wrote, and no fence_async() followed"},
		8:  {gpu.ErrSync, "of dynamic shared memory, which thread 0 wrote, and no fence_async() followed"},
		9:  {gpu.ErrSync, "wgmma_bf16: no wgmma_begin() since the sums were waited for"},
		10: {gpu.ErrSync, "wgmma_wait: the lanes of this warp have started different products"},
		11: {gpu.ErrFault, "misaligned wgmma_bf16: the address must be a multiple of 1024; it is byte "},
		12: {gpu.ErrSync, "wgmma_bf16: an operand begins within 16 numbers of a row"},
		13: {gpu.ErrFault, "wgmma_bf16 touches shared memory outside of any array"},
		14: {gpu.ErrSync, "wgmma_bf16: no wgmma_begin() since the sums were waited for"},
	} {
		w := newWarpgroups(t, d, 64, wrong)
		for range 2 {
			wantError(t, fmt.Sprint("wrong ", wrong), d.Launch(w.Launch), c.kind, "wgmma.cu:", c.word)
		}
	}
	w := newWarpgroups(t, d, 64, 0)
	w.Block[0] = 240
	wantError(t, "half a warp", d.Launch(w.Launch), gpu.ErrSync, "wgmma_wait needs a whole warp")
	launch(t, d, newWarpgroups(t, d, 64, 0).Launch) // nothing of the failures stays
}

func TestRefusedLaunches(t *testing.T) {
	d := open(t)
	y := space[float32](t, d, 256)
	good := one("one_block", 128, ptr(y), gpu.I32(1), gpu.F32(2))
	launch(t, d, good)
	with := func(change func(*gpu.Launch)) error {
		l := good
		change(&l)
		return d.Launch(l)
	}
	args := func(a ...gpu.Arg) error { return with(func(l *gpu.Launch) { l.Args = a }) }
	wantError(t, "grid x", with(func(l *gpu.Launch) { l.Grid[0] = 1 << 31 }), gpu.ErrLimit, "launch one_block", "grid x is 2147483648, allowed are 1 to 2147483647")
	wantError(t, "grid y", with(func(l *gpu.Launch) { l.Grid[1] = 65536 }), gpu.ErrLimit, "grid y is 65536, allowed are 1 to 65535")
	wantError(t, "grid z", with(func(l *gpu.Launch) { l.Grid[2] = 0 }), gpu.ErrLimit, "grid z is 0")
	wantError(t, "block", with(func(l *gpu.Launch) { l.Block = [3]uint32{64, 32, 1} }), gpu.ErrLimit, "a block has 2048 threads, allowed are 1024")
	wantError(t, "block z", with(func(l *gpu.Launch) { l.Block = [3]uint32{1, 1, 65} }), gpu.ErrLimit, "block z is 65")
	wantError(t, "bound", with(func(l *gpu.Launch) { l.Block[0] = 129 }), gpu.ErrLimit, "a block of 129 threads; the kernel's launch bound is 128")
	wantError(t, "dynamic shared", with(func(l *gpu.Launch) { l.SharedBytes = 227<<10 + 1 }), gpu.ErrLimit, "232449 bytes of dynamic shared memory, allowed are 232448")
	if err := with(func(l *gpu.Launch) { l.SharedBytes = 227 << 10 }); err != nil {
		t.Error(err)
	}
	wantError(t, "static shared", d.Launch(one("big_static", 32, ptr(y))), gpu.ErrLimit, "with b the block has 53248 bytes of static")
	wantError(t, "kernel", with(func(l *gpu.Launch) { l.Kernel = "two_block" }), gpu.ErrUnknownKernel, "launch two_block")
	wantError(t, "too few", args(ptr(y), gpu.I32(1)), gpu.ErrArgument, "2 arguments given, it takes 3: (float* y, int n, float s)")
	wantError(t, "too many", args(ptr(y), gpu.I32(1), gpu.F32(1), gpu.F32(1)), gpu.ErrArgument, "4 arguments given")
	wantError(t, "size", args(ptr(y), gpu.I64(1), gpu.F32(1)), gpu.ErrArgument, "argument 1 (n) is a long long, the kernel takes an int")
	wantError(t, "kind", args(ptr(y), gpu.I32(1), gpu.I32(1)), gpu.ErrArgument, "argument 2 (s) is an int, the kernel takes a float")
	wantError(t, "pointer", args(ptr(12345), gpu.I32(1), gpu.F32(1)), gpu.ErrArgument, "argument 0 (y) points to 0x3039, which is in no buffer")
	if err := args(ptr(y), gpu.U32(1), gpu.F32(1)); err != nil {
		t.Error(err)
	}
	old := openWith(t, Options{Arch: 80})
	y = space[float32](t, old, 64)
	wantError(t, "kernel of sm_90", old.Launch(one("forgetful_bulk", 64, ptr(y), ptr(y), gpu.I32(0))), gpu.ErrUnknownKernel)
	if err := old.Launch(one("dependent", 32, ptr(y), gpu.I32(1))); err != nil {
		t.Error(err)
	}
}

func TestLaunchThatDoesNotEnd(t *testing.T) {
	d := openWith(t, Options{Timeout: 300 * time.Millisecond})
	flag := upload(t, d, []int32{0})
	start := time.Now()
	wantError(t, "endless", d.Launch(many("endless", 4, 64, ptr(flag))), gpu.ErrTimeout, "launch endless (grid 4x1x1", "did not end within 300 ms", "block (2,0,0) thread (33,0,0)")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	wantError(t, "after it", d.Launch(many("endless", 4, 64, ptr(flag))), gpu.ErrLost, "an earlier call failed", "did not end")
	wantError(t, "sync after it", d.Sync(), gpu.ErrLost)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestCancelledAndClosed(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d := openWith(t, Options{})
	c, err := Open(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, _ := testModule()
	if err := c.Load(m); err != nil {
		t.Fatal(err)
	}
	flag := upload(t, c, []int32{0})
	why := errors.New("the user pressed a key")
	time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
	err = c.Launch(many("endless", 4, 64, ptr(flag)))
	wantError(t, "cancelled", err, why)
	wantError(t, "cancelled", err, gpu.ErrLost)
	wantError(t, "after it", mustFail(c.Alloc(1)), why)
	if state := c.child.cmd.ProcessState; state == nil {
		t.Error("nobody has waited for the child")
	}

	flag = upload(t, d, []int32{0})
	time.AfterFunc(200*time.Millisecond, func() { d.Close() })
	wantError(t, "closed while running", d.Launch(many("endless", 4, 64, ptr(flag))), gpu.ErrLost, "closed")
	wantError(t, "closed", d.Sync(), gpu.ErrLost, "the driver was closed")
	if d.child.cmd.ProcessState == nil {
		t.Error("nobody has waited for the child")
	}
}

func TestChildThatDies(t *testing.T) {
	d := open(t)
	flag := upload(t, d, []int32{0})
	time.AfterFunc(100*time.Millisecond, func() { d.child.cmd.Process.Kill() })
	wantError(t, "killed", d.Launch(many("endless", 4, 64, ptr(flag))), gpu.ErrLost, "launch endless", "the emulator's process ended: signal: killed")
}
