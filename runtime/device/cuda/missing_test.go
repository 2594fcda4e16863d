//go:build !(cuda && linux && cgo)

package cuda

import (
	"strings"
	"testing"

	"github.com/minfer/minfer/runtime/device"
)

func TestMissingSaysHowToGetIt(t *testing.T) {
	if _, err := device.Open("cuda:0"); err == nil || !strings.Contains(err.Error(), Missing()) {
		t.Errorf("a build without GPUs: %v", err)
	}
	if l := List(); len(l) != 1 || l[0].Err == nil || !strings.Contains(l[0].Err.Error(), Missing()) {
		t.Errorf("its list: %+v", l)
	}
}
