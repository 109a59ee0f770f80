package phone

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestOldestEnds: one connection too many ends the oldest that is open, and no other.
func TestOldestEnds(t *testing.T) {
	var c connections
	var ours, theirs []net.Conn
	for range maxConnections + 2 {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		ours, theirs = append(ours, a), append(theirs, b)
	}
	ended := func(i int) bool {
		go func() { _, _ = ours[i].Write([]byte{0}) }() // ends with the pipe
		_, err := theirs[i].Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
	for _, conn := range ours[:maxConnections] {
		c.changed(conn, http.StateNew)
		c.changed(conn, http.StateActive)
		c.changed(conn, http.StateIdle)
	}
	c.changed(ours[0], http.StateClosed) // by itself: room for one
	c.changed(ours[maxConnections], http.StateNew)
	if len(c.open) != maxConnections || ended(0) || ended(1) {
		t.Errorf("%d are open, or one was ended without need", len(c.open))
	}
	c.changed(ours[maxConnections+1], http.StateNew)
	if len(c.open) != maxConnections || !ended(1) || ended(2) || ended(maxConnections+1) {
		t.Errorf("%d are open, or another was ended than the oldest", len(c.open))
	}
}
