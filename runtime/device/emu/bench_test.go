package emu

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// BenchmarkBlocks measures blocks of 256 threads that reduce 256 floats.
func BenchmarkBlocks(b *testing.B) {
	for _, kernel := range []string{"row_sums", "row_sums_shuffled"} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", kernel, threads), func(b *testing.B) {
				d := openWith(b, Options{Threads: threads})
				const blocks = 4096
				x, y := upload(b, d, randomFloats(blocks*256, 1)), space[float32](b, d, blocks)
				l := many(kernel, blocks, 256, ptr(x), ptr(y), gpu.I32(256))
				before := processorTime(d)
				for b.Loop() {
					launch(b, d, l)
				}
				b.ReportMetric(float64(blocks*b.N)/b.Elapsed().Seconds(), "blocks/s")
				if used := processorTime(d) - before; used > 0 {
					b.ReportMetric(float64(blocks*b.N)/used.Seconds(), "blocks/cpu-s") // on a busy machine the better figure
				}
			})
		}
	}
}

// processorTime is what the child has used so far; 0 where /proc does not say.
func processorTime(d *Driver) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.child.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:13] { // user and system time in hundredths of a second
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// BenchmarkLaunch measures a launch that does next to nothing.
func BenchmarkLaunch(b *testing.B) {
	d := open(b)
	y := space[float32](b, d, 64)
	l := one("one_block", 32, ptr(y), gpu.I32(1), gpu.F32(1))
	for b.Loop() {
		launch(b, d, l)
	}
}

// BenchmarkUpload measures the way of a model's weights to the device.
func BenchmarkUpload(b *testing.B) {
	d := open(b)
	data := make([]byte, 64<<20)
	p := space[byte](b, d, len(data))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := d.Upload(p, data); err != nil {
			b.Fatal(err)
		}
	}
}
