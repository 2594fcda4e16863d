package load_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/minfer/minfer/gen"
)

// Gates go by the device of the least architecture, so that no other may allow less.
func TestDevicesAllowWhatGatesTakeForGranted(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"grid_y: 65535", "grid_y: 65534", "specs/devices/sm90.yaml:1:1: grid_y is 65534; at least 65535 is due, as many as the limit of sm80"},
		{"grid_x: 2147483647", "grid_x: 1", "grid_x is 1; at least 2147483647 is due"},
		{"grid_z: 65535", "grid_z: 1", "grid_z is 1; at least 65535 is due"},
		{"warp: 32", "warp: 64", "warp is 64; 32 is due, that of sm80"},
		{"threads_per_sm: 2048", "threads_per_sm: 512", "threads_per_sm is 512; at least 1024 is due, as many as the limit, its threads"},
		{"shared_per_sm_bytes: 233472", "shared_per_sm_bytes: 232447", "shared_per_sm_bytes is 232447; at least 232448 is due"},
		{"shared_bytes: 232448", "shared_bytes: 49151", "shared_bytes is 49151; at least 49152 is due"},
	} {
		fsys := fstest.MapFS{}
		for name, file := range few() {
			fsys[name] = file
		}
		text := string(read("devices/sm90.yaml"))
		other := strings.Replace(text, "\n"+c.from, "\n"+c.to, 1)
		if other == text {
			t.Fatalf("nothing is replaced: %s", c.from)
		}
		fsys["devices/sm90.yaml"] = &fstest.MapFile{Data: []byte(other)}
		if _, err := gen.Load(fsys); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.to, err, c.want)
		}
	}
}
