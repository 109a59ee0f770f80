package monitor

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"cloister/sandbox/microvm/wire"
)

// header is one of yamux: its kind 0 carries data, 1 a window, 2 a ping, 3 an end of all.
func header(version, kind byte, flags uint16, stream, length uint32) []byte {
	out := binary.BigEndian.AppendUint16([]byte{version, kind}, flags)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(out, stream), length)
}

const opens = 1 // the flag with which a stream begins

// hostile is a monitor's box and the bare port of a guest whose kernel is the payload's.
// It says when a stream of it was accepted.
func hostile(t testing.TB) (b *box, port net.Conn, accepted chan bool) {
	t.Helper()
	own, port := net.Pipe()
	accepted = make(chan bool, 1024)
	m, err := wire.Monitor(own)
	if err != nil {
		t.Fatal(err)
	}
	b = &box{o: Order{Setup: Setup{Network: true}}, s: m, head: headWithin, over: make(chan error, 8)}
	t.Cleanup(func() {
		_ = port.Close()
		_ = m.Close()
	})
	go b.accept(t.Context())
	go func() {
		const accepts = 2
		for answer := make([]byte, 12); ; { // what is answered has no data
			if _, err := io.ReadFull(port, answer); err != nil {
				close(accepted)
				return
			}
			if answer[3]&accepts != 0 {
				accepted <- true
			}
		}
	}()
	return b, port, accepted
}

// TestClosedStreamsKept has a guest open streams and never end one of those that were closed here,
// each with data that is read by no one: the box ends before that is the host's memory.
func TestClosedStreamsKept(t *testing.T) {
	b, port, accepted := hostile(t)
	unread := []byte("unread")
	go func() {
		for id := uint32(2); ; id += 2 {
			for _, part := range [][]byte{header(0, 0, opens, id, uint32(len(unread))), unread} {
				if _, err := port.Write(part); err != nil {
					return
				}
			}
			<-accepted
		}
	}()
	select {
	case err := <-b.over:
		if !strings.Contains(err.Error(), "more than 1024 connections") {
			t.Errorf("it ended otherwise: %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("they are kept")
	}
}

// TestGarbage gives what is no stream: each ends the session, and so the box, and none is kept.
func TestGarbage(t *testing.T) {
	for name, text := range map[string][]byte{
		"another version":          header(9, 0, opens, 2, 0),
		"another kind":             header(0, 9, 0, 2, 0),
		"text":                     []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zeros of a stream's data": append(header(0, 0, 0xffff, 0xffffffff, 0xffffffff), make([]byte, 64<<10)...),
		"data beyond the window":   append(header(0, 0, opens, 2, 1<<30), make([]byte, 64<<10)...),
		"a stream of ours":         header(0, 0, opens, 1, 0),
		"one twice":                append(header(0, 0, opens, 2, 0), header(0, 0, opens, 2, 0)...),
		"an end of all":            header(0, 3, 0, 0, 0),
		"half a header":            {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, port, _ := hostile(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = port.Write(text) // it may be closed in the middle
			_ = port.Close()
			select {
			case err := <-b.over:
				if err == nil {
					t.Error("it ended without a reason")
				}
			case <-time.After(time.Minute):
				t.Error("the box goes on")
			}
			runtime.ReadMemStats(&after)
			if after.TotalAlloc-before.TotalAlloc > 16<<20 {
				t.Errorf("%d bytes were taken", after.TotalAlloc-before.TotalAlloc)
			}
		})
	}
}

// TestSlowHead has a stream that never says what it is, a byte at a time: it ends in time, and gives its
// place back.
func TestSlowHead(t *testing.T) {
	_, g := pairOf(t, time.Second/5)
	s, err := g.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		ended <- err
	}()
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	late := time.After(time.Minute)
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, io.EOF) {
				t.Errorf("it ended with %v", err)
			}
			_ = s.Close()
			return
		case <-every.C:
			_, _ = s.Write([]byte(" ")) // it may have ended meanwhile
		case <-late:
			t.Fatal("it has its place still")
		}
	}
}

// TestLongHead holds what begins a stream to a line of its bound.
func TestLongHead(t *testing.T) {
	_, g := pair(t)
	s, err := g.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(s, io.LimitReader(zeros{}, 8*wire.MaxHead))
	if err == nil {
		_, err = s.Read(make([]byte, 1))
	}
	if err == nil {
		t.Errorf("%d bytes are a head", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// reported is what a monitor reports of a command of a guest that says these lines about it.
func reported(t *testing.T, lines ...string) []string {
	t.Helper()
	b, g := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			s, err := g.AcceptStream()
			if err != nil {
				return
			}
			go speak(s, lines)
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	go func() {
		rep := &report{w}
		if err := b.command(rep, Command{Argv: []string{"true"}}, [3]*os.File{null, null, null}, nil); err != nil {
			rep.say("error %s", err)
		}
		w.Close()
	}()
	var out []string
	in := bufio.NewScanner(r)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		out = append(out, in.Text())
	}
	return out
}

func speak(s *yamux.Stream, lines []string) {
	var h wire.Head
	if wire.Hear(s, &h) != nil || h.Run == nil {
		_ = s.Close()
		return
	}
	for _, line := range lines {
		if _, err := io.WriteString(s, line+"\n"); err != nil {
			return
		}
	}
}

// TestWords: what a guest says of a command is bounded, and a line is a line of the report.
func TestWords(t *testing.T) {
	long := `{"failed":"` + strings.Repeat("\xff", wire.MaxWord) + `"}`
	if got := reported(t, long); len(got) != 1 || len(got[0]) > 100 {
		t.Errorf("%d lines, the first of %d bytes", len(got), len(strings.Join(got, "")))
	}
	if got := reported(t, `{"started":true}`, `{"failed":"a\nend 0\nstarted"}`); len(got) != 2 || got[1] != "error a; end 0; started" {
		t.Errorf("%q", got)
	}
	if got := reported(t, "{}", "{}", `{"signal":9}`, "[]"); len(got) != 1 || !strings.HasPrefix(got[0], "error ") {
		t.Errorf("%q", got)
	}
}

// TestEndedCommandsKeepNothing: of commands that have ended no stream counts as one that the guest keeps open, and
// no guest writes any more to who asked for one, even where it has said that the command failed and goes on.
func TestEndedCommandsKeepNothing(t *testing.T) {
	null := func() *os.File {
		f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	to := null()
	defer to.Close()
	run := func(b *box, out *os.File) {
		std := [3]*os.File{null(), out, null()}
		if err := b.command(&report{to}, Command{Argv: []string{"true"}}, std, nil); err != nil {
			t.Fatal(err)
		}
	}
	guest := func(g *yamux.Session, serve func(*yamux.Stream)) {
		for {
			s, err := g.AcceptStream()
			if err != nil {
				return
			}
			go serve(s)
		}
	}
	b, g := pair(t)
	go guest(g, func(s *yamux.Stream) {
		speak(s, []string{`{"end":0}`})
		_ = s.Close()
	})
	for range 4 {
		run(b, null())
	}
	for began := time.Now(); b.s.NumStreams() > 0; {
		<-time.After(10 * time.Millisecond)
		if time.Since(began) > time.Minute {
			t.Fatalf("%d streams are kept", b.s.NumStreams())
		}
	}
	b, g = pair(t)
	go guest(g, func(s *yamux.Stream) {
		var h wire.Head
		line := "more\n"
		if err := wire.Hear(s, &h); err == nil && h.Run != nil {
			line = `{"failed":"so it says"}` + "\n"
		}
		for err := error(nil); err == nil; {
			_, err = io.WriteString(s, line)
		}
	})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run(b, w)
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("who asked for the command has its output still: %v", err)
	}
}

// FuzzPort gives a monitor any bytes: it ends, and does not panic.
func FuzzPort(f *testing.F) {
	f.Add(append(header(0, 0, opens, 2, 12), []byte(`{"dns":true}`)...))
	f.Add(append(header(0, 0, opens, 2, 22), []byte("{\"tcp\":\"127.0.0.1:9\"}\n\x00")...))
	f.Add(append(header(0, 1, opens, 2, 0xffffffff), header(0, 2, 1, 0, 7)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, port, _ := hostile(t)
		_, _ = port.Write(text) // it may be closed in the middle
		_ = port.Close()
		<-b.over
	})
}

// TestRefusedDestinations sends an empty datagram to each destination that a guest names, and no more once it
// names what is none.
func TestRefusedDestinations(t *testing.T) {
	l, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own, port := net.Pipe()
	m, err := wire.Monitor(own)
	if err != nil {
		t.Fatal(err)
	}
	g, err := wire.Guest(port)
	if err != nil {
		t.Fatal(err)
	}
	b := &box{o: Order{Setup: Setup{Network: true}}, s: m, head: headWithin, over: make(chan error, 8)}
	t.Cleanup(func() { _ = m.Close() })
	go b.accept(t.Context())
	s, err := wire.Open(g, wire.Head{Refused: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := wire.WriteFrame(s, []byte(l.LocalAddr().String())); err != nil {
			t.Fatal(err)
		}
		if n, _, err := l.ReadFromUDPAddrPort(make([]byte, 16)); n != 0 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	for _, text := range []string{"nowhere", strings.Repeat("1", wire.MaxDestination+1)} {
		s, err := wire.Open(g, wire.Head{Refused: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.WriteFrame(s, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}
