package hostexec_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"cloister/hostexec"
)

// ends are a caller and what the host hears of it.
func ends(t *testing.T) (caller net.Conn, conn *hostexec.Conn, gone chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if caller, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caller.Close() })
	host, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	gone = make(chan struct{})
	conn = hostexec.NewConn(bufio.NewReader(host), host, func() { close(gone) })
	t.Cleanup(conn.Close)
	return caller, conn, gone
}

func send(t *testing.T, w io.Writer, kind byte, payload []byte) {
	t.Helper()
	frame := append([]byte{kind, 0, 0, 0, 0}, payload...)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	if _, err := w.Write(frame); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: waited for in vain", what)
	}
}

// A request that two readers could read differently is none.
func TestRequestHasOneReading(t *testing.T) {
	for line, good := range map[string]bool{
		`{"argv":["bHM="],"dir":"Lw=="}`:                      true,
		`{"argv":["bHM="],"dir":"Lw==","said":null}`:          true,
		`{"argv":["bHM="],"argv":["cm0="]}`:                   false,
		`{"argv":["bHM="],"Argv":["cm0="]}`:                   false,
		`{"argv":["bHM="],"\u0061rgv":["cm0="]}`:              false,
		`{"argv":["bHM="],"ar\u0067v":["cm0="],"dir":"Lw=="}`: false,
		`{"argv":["bHM="]}{"argv":["cm0="]}`:                  false,
		`{"argv":["bHM="],"env":["x"]}`:                       false,
		`["argv"]`:                                            false,
	} {
		_, err := hostexec.ReadRequest(bufio.NewReader(strings.NewReader(line + "\n")))
		if (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A caller that leaves is noticed also while all the input waits that may: a
// command that does not read, or a person who has not answered, must not keep it.
func TestCallerLeavesBehindItsInput(t *testing.T) {
	caller, conn, gone := ends(t)
	for range 4 {
		send(t, caller, 'i', make([]byte, 64<<10))
	}
	select {
	case <-gone:
		t.Fatal("gone while it is there")
	case <-time.After(100 * time.Millisecond):
	}
	caller.Close()
	within(t, "the end of the caller", gone)
	// What it sent is there to be read, and then it says that more should come.
	n, err := io.Copy(io.Discard, conn.Stdin(t.Context()))
	if n != 256<<10 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A caller that sends more than was asked for is none of ours.
func TestWindow(t *testing.T) {
	caller, _, gone := ends(t)
	for range 4 {
		send(t, caller, 'i', make([]byte, 64<<10))
	}
	send(t, caller, 's', []byte{15}) // signals need no leave
	select {
	case <-gone:
		t.Fatal("gone with a full window")
	case <-time.After(100 * time.Millisecond):
	}
	send(t, caller, 'i', []byte("x"))
	within(t, "the end of a caller that sends too much", gone)
}

func TestStdinEnds(t *testing.T) {
	caller, conn, _ := ends(t)
	send(t, caller, 'i', []byte("some words"))
	send(t, caller, 'i', nil)
	text, err := io.ReadAll(conn.Stdin(t.Context()))
	if string(text) != "some words" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
