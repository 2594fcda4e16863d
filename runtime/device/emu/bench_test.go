package emu

import (
	"fmt"
	"testing"

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
				for b.Loop() {
					launch(b, d, l)
				}
				b.ReportMetric(float64(blocks*b.N)/b.Elapsed().Seconds(), "blocks/s")
			})
		}
	}
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
