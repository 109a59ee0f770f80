package onhost_test

import (
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/onhost"
)

func TestProcess(t *testing.T) {
	if pid, err := onhost.Process(onhost.Handle(4242)); pid != 4242 || err != nil {
		t.Errorf("%d, %v", pid, err)
	}
	for _, h := range []sandbox.Handle{"", "0", "1", "-7", "namespace/pod", "4242 "} {
		if pid, err := onhost.Process(h); err == nil {
			t.Errorf("%q is process %d", h, pid)
		}
		if _, err := onhost.Hold(h); err == nil {
			t.Errorf("%q is held still", h)
		}
	}
}
