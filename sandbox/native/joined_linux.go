package native

import (
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
	if !b.signalJoined() {
		return
	}
	late := time.NewTimer(joinedWithin)
	defer late.Stop()
	select {
	case <-b.gone:
	case <-late.C: // it is killed itself
	}
}

// signalJoined reports whether there is a command to be waited for.
func (b *box) signalJoined() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		return false
	}
	pidfd, err := openCommand(b.pid)
	if err != nil {
		return false // there is none yet, or none any more
	}
	defer unix.Close(pidfd)
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // one that has ended is waited for
	return true
}
