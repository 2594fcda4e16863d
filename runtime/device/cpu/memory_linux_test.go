package cpu

import "testing"

func TestMeminfo(t *testing.T) {
	text := []byte("MemTotal:       24000000 kB\nMemAvailable:   1024 kB\ninactive_file 77\n")
	if n, ok := meminfo(text, "MemAvailable:"); !ok || n != 1<<20 {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := meminfo(text, "inactive_file"); !ok || n != 77 {
		t.Errorf("%d, %v", n, ok)
	}
	if _, ok := meminfo(text, "MemFree:"); ok {
		t.Error("found what is not there")
	}
}
