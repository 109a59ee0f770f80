package microvm

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestStatus: what is no end of a command is not taken for one, whatever a guest says.
func TestStatus(t *testing.T) {
	for ws, want := range map[unix.WaitStatus]int{0: 0, 7 << 8: 7, 255 << 8: 255, 9: 137, 15 | 0x80: 143, 0x137f: -1, 0xffff: -1, 0x057f: -1} {
		got := -1
		if st, ok := status(ws); ok {
			got = st.ExitCode()
		}
		if got != want {
			t.Errorf("%#x: %d, want %d", ws, got, want)
		}
	}
}
