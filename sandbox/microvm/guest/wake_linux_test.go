package guest

import (
	"os"
	"testing"
)

// TestAwake: only what has slept goes on with a port.
func TestAwake(t *testing.T) {
	was := os.Args
	defer func() { os.Args = was }()
	for _, args := range [][]string{{Name}, {Name, woken}, {Name, woken, "x"}, {Name, "quiet", "3"}} {
		os.Args = args
		if _, ok := awake(); ok {
			t.Errorf("%q is awake", args)
		}
	}
}

// TestReseed: randomness of another size than was agreed on is refused, before a device is opened.
func TestReseed(t *testing.T) {
	for _, n := range []int{0, 64, 129} {
		if err := reseed(make([]byte, n)); err == nil {
			t.Errorf("%d bytes were taken", n)
		}
	}
}
