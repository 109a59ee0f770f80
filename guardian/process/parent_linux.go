package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ParentOf is a process's parent, 0 where there is none in sight; known is false
// of a process that is gone.
func ParentOf(pid int) (parent int, known bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		// Other people's may be hidden (proc(5), hidepid), and are not gone.
		return 0, !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	}
	// The name in brackets may hold anything, also brackets (proc(5)).
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
