package guest

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// looksEvery is how often the guest counts what its kernel knows.
const looksEvery = 100 * time.Millisecond

// forget has the kernel let go of files that nothing uses, before the server of the view has opened as many as it may:
// it keeps one open for each that the kernel knows, and the kernel knows all that it ever saw while it has memory.
// It goes on for as long as the guest lives.
func (g *guest) forget() {
	if g.setup.Seen == 0 {
		return // it has no bound
	}
	var base uint64
	for range time.Tick(looksEvery) {
		n, err := inodes()
		if err != nil {
			return
		}
		if base == 0 || n < base {
			base = n
		}
		if n-base < g.setup.Seen/3 {
			continue
		}
		// Pages first: a file that has some is kept.
		if os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) != nil {
			return
		}
		if base, err = inodes(); err != nil { // what is used stays, and what the guest's own memory holds
			return
		}
	}
}

// inodes is how many files the kernel knows.
func inodes() (uint64, error) {
	text, err := os.ReadFile("/proc/sys/fs/inode-nr")
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(words[0], 10, 64)
}
