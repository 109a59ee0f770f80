package hostexec_test

import (
	"bufio"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"cloister/hostexec"
)

// A caller that leaves is noticed also while what it sent waits: a command that
// does not read, or a person who has not answered, must not keep its request.
func TestCallerLeavesBehindItsInput(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	caller, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	host, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	conn := hostexec.NewConn(bufio.NewReader(host), host, func() { close(gone) })
	defer conn.Close()
	frame := make([]byte, 5+8<<10)
	frame[0] = 'i'
	binary.BigEndian.PutUint32(frame[1:], 8<<10)
	// More than the four frames that wait and the one at hand, and less than the
	// kernel's buffer: behind a full one the end itself would have to wait.
	for range 7 {
		if _, err := caller.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-gone:
		t.Fatal("gone while it is there")
	case <-time.After(2 * hostexec.LookEvery):
	}
	caller.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed")
	}
}
