package cpu

import (
	"bytes"
	"os"
	"strconv"
)

// availableBytes is the memory that can be taken without swapping: what the kernel calls available, or what is left of
// the control group's limit where that is less.
func availableBytes() (uint64, bool) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	have, ok := meminfo(info, "MemAvailable:")
	if !ok {
		return 0, false
	}
	limit, ok1 := number("/sys/fs/cgroup/memory.max")
	used, ok2 := number("/sys/fs/cgroup/memory.current")
	if ok1 && ok2 {
		stat, _ := os.ReadFile("/sys/fs/cgroup/memory.stat")
		if cached, ok := meminfo(stat, "inactive_file"); ok { // given back on demand
			used -= min(used, cached)
		}
		have = min(have, limit-min(limit, used))
	}
	return have, true
}

// meminfo finds a line "name number [kB]" and gives bytes.
func meminfo(text []byte, name string) (uint64, bool) {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 2 || string(f[0]) != name {
			continue
		}
		n, err := strconv.ParseUint(string(f[1]), 10, 54)
		if len(f) > 2 && string(f[2]) == "kB" {
			n <<= 10
		}
		return n, err == nil
	}
	return 0, false
}

// number reads a file that holds one number; "max" is none.
func number(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}
