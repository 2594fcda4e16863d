package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine is where a measurement was taken, and with what program.
type Machine struct {
	CPU    string `json:"cpu"`   // model, as the system names it
	Cores  int    `json:"cores"` // that this process may use
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Go     string `json:"go_version"`
	Commit string `json:"commit"` // of this program, "-dirty" where it was built from changed sources; "" if unknown
}

// Here is this machine.
func Here() Machine {
	return Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Commit: Commit()}
}

// Commit is the revision that the program was built from, as the go command stamped it.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}

// cpuModel reads Linux's description of the first processor; other systems are named by their architecture.
func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	return parseCPUModel(string(data))
}

func parseCPUModel(text string) string {
	for line := range strings.Lines(text) {
		key, val, ok := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name", "Model", "cpu model":
			if val = strings.TrimSpace(val); ok && val != "" {
				return val
			}
		}
	}
	return runtime.GOARCH
}
