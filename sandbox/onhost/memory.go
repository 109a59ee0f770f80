package onhost

import (
	"os"
	"strconv"
	"strings"
)

// scoreFile is how much sooner a process is ended than its size says, in thousandths of the
// memory there is (proc(5)). A child begins with its parent's.
const scoreFile = "/proc/self/oom_score_adj"

// sooner is what a payload has above its owner: as if half of the memory more were its own. A
// guardian holds 256 MiB at most, which on a small machine is more than many small programs have each.
const sooner, soonest = 500, 1000

// Sooner is the score of what this process starts for a payload, where the kernel is out of memory:
// the payload is to end, and not its owner or the guardian.
func Sooner() int { return above(os.ReadFile(scoreFile)) }

func above(text []byte, err error) int {
	own, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil {
		return sooner
	}
	return max(own, min(own+sooner, soonest))
}

// EndedFirst gives all that this process starts the score of [Sooner], until after. The file is open from
// before, since a process that hides its memory may open it no more. Where it cannot be
// written the kernel chooses by size alone: whatever it ends, nothing leaves.
func EndedFirst() (after func()) {
	f, err := os.OpenFile(scoreFile, os.O_RDWR, 0)
	if err != nil {
		return func() {}
	}
	text := make([]byte, 16)
	n, _ := f.ReadAt(text, 0)
	if n == 0 {
		_ = f.Close()
		return func() {}
	}
	own := strings.TrimSpace(string(text[:n]))
	_, _ = f.WriteAt([]byte(strconv.Itoa(above([]byte(own), nil))), 0)
	return func() {
		_, _ = f.WriteAt([]byte(own), 0)
		_ = f.Close()
	}
}
