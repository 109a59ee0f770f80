package onhost

import (
	"os"
	"strconv"
	"strings"
	"sync"
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

// scored is this process's own score, which it has one of whatever it starts at the same time.
type scored struct {
	sync.Mutex
	file *os.File
	own  string // before the first of those that begin
	now  int    // how many begin
}

var score scored

// read reads it, and reports whether there is one.
func (s *scored) read() bool {
	if s.file == nil {
		f, err := os.OpenFile(scoreFile, os.O_RDWR, 0)
		if err != nil {
			return false
		}
		s.file = f
	}
	text := make([]byte, 16)
	n, _ := s.file.ReadAt(text, 0)
	s.own = strings.TrimSpace(string(text[:n]))
	return n > 0
}

// EndedFirst gives all that this process starts the score of [Sooner], until after, of which a second call does
// nothing. The file is opened once: a process that hides its memory, as one that began a box does, may open it no
// more. Where several begin, the last that is over gives this process its own score back. Where it cannot be written
// the kernel chooses by size alone: whatever it ends, nothing leaves.
func EndedFirst() (after func()) {
	s := &score
	s.Lock()
	defer s.Unlock()
	if s.now == 0 && !s.read() {
		return func() {}
	}
	if s.now++; s.now == 1 {
		_, _ = s.file.WriteAt([]byte(strconv.Itoa(above([]byte(s.own), nil))), 0)
	}
	return sync.OnceFunc(func() {
		s.Lock()
		defer s.Unlock()
		if s.now--; s.now == 0 {
			_, _ = s.file.WriteAt([]byte(s.own), 0)
		}
	})
}
