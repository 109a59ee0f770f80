package judged

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What lies in a pipe when the command has ended is written, and not what comes for each byte that is taken out.
func TestDrainEnds(t *testing.T) {
	from, in, inErr := os.Pipe()
	out, to, outErr := os.Pipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := unix.FcntlInt(to.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil { // a piece is written when most of it was read
		t.Fatal(err)
	}
	const room = 1 << 16
	if _, err := in.Write(make([]byte, room)); err != nil {
		t.Fatal(err)
	}
	go func() { // of a piece that is moved it waits for the first byte, fills the pipe again, and takes the rest
		piece := make([]byte, room)
		for {
			if _, err := io.ReadFull(out, piece[:1]); err != nil {
				return
			}
			if _, err := in.Write(piece); err != nil {
				return
			}
			if _, err := io.ReadFull(out, piece[1:]); err != nil {
				return
			}
		}
	}()
	defer in.Close()
	defer out.Close()
	ended := make(chan struct{})
	go func() { drain(to, from); _ = to.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it goes on for as long as somebody writes")
	}
}
