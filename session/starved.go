package session

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"cloister/sandbox"
)

// starved is why a command ended that was killed while the kernel was out of memory: the machine's, or
// that of a control group around it. Whose end it was that the kernel counts it does not say.
const starved = "it was killed while there was no memory left"

// kills is how often this machine's kernel has ended a process for want of memory
// (/proc/vmstat, since Linux 4.13); 0 where it does not say.
func kills() int {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "\noom_kill ")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		return 0
	}
	return n
}

// wasKilled reports whether a command ended by SIGKILL, or the last one of a shell's did.
func wasKilled(s sandbox.Status) bool { return s.ExitCode() == 128+int(syscall.SIGKILL) }
