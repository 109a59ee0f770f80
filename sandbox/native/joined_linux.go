package native

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// joinedWithin bounds the wait for the process that a command which joined is the child of, when the command is ended.
const joinedWithin = time.Second

// killJoined ends a command that joined, and has the process that is its parent wait for it. That one is of the host's
// process namespace: were it killed first, the command would be left to the host's own first process. In a container
// that may be any program, which waits for none, and the box could not end before someone has.
func (b *box) killJoined() {
	if !b.guest {
		return
	}
	if !b.signalJoined(command) || b.waited() {
		return
	}
	// The kernel keeps the end of what is traced from its parent as long as its tracer has not taken it (ptrace(2)).
	if b.signalJoined(tracer) {
		_ = b.waited() // or it is killed itself
	}
}

// waited reports whether the command has been waited for in time.
func (b *box) waited() bool {
	late := time.NewTimer(joinedWithin)
	defer late.Stop()
	select {
	case <-b.gone:
		return true
	case <-late.C:
		return false
	}
}

// signalJoined kills what a look finds by the process that the command is the child of, if there is any.
func (b *box) signalJoined(find func(int) (int, error)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		return false
	}
	pidfd, err := openBy(b.pid, find)
	if err != nil {
		return false // there is none yet, or none any more
	}
	defer unix.Close(pidfd)
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // one that has ended is waited for
	return true
}

// tracer is the host's number of the process inside that traces a command; one of the host's own is a debugger.
func tracer(init int) (int, error) {
	pid, err := command(init)
	if err != nil {
		return 0, err
	}
	by, err := strconv.Atoi(strings.Join(statusOf(pid, "TracerPid:"), ""))
	if err != nil || by == 0 || len(statusOf(by, "NSpid:")) < 2 {
		return 0, errEnded
	}
	return by, nil
}

// statusOf are the words of a line of a process's status (proc(5)).
func statusOf(pid int, line string) []string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status") // one that is gone has none
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, line); ok {
			return strings.Fields(rest)
		}
	}
	return nil
}
