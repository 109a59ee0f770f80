package sock_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"cloister/egress/internal/sock"
)

// pair is a connection's two ends, on loopback.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return here, there
}

// What is more than the kernel takes at once waits for a slow reader, and comes whole.
func TestSwiftMoves(t *testing.T) {
	here, there := pair(t)
	fast := sock.Swift(here)
	text := make([]byte, 16<<20)
	_, _ = rand.Read(text)
	done := make(chan error, 1)
	go func() {
		n, err := fast.Write(text)
		if err == nil && n != len(text) {
			err = io.ErrShortWrite
		}
		done <- errors.Join(err, here.(*net.TCPConn).CloseWrite())
	}()
	back := make(chan error, 1)
	go func() {
		_, err := there.Write(text[:100_000])
		back <- err
	}()
	got := make([]byte, 100_000)
	if _, err := io.ReadFull(fast, got); err != nil || !bytes.Equal(got, text[:len(got)]) {
		t.Errorf("other bytes came back: %v", err)
	}
	if got, err := io.ReadAll(there); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
	if err := errors.Join(<-done, <-back); err != nil {
		t.Error(err)
	}
}

// A wait ends by a deadline, that comes before or while, by Close, and by the end.
func TestSwiftEnds(t *testing.T) {
	here, there := pair(t)
	fast := sock.Swift(here)
	one := make([]byte, 1)
	_ = fast.SetReadDeadline(time.Unix(1, 0))
	if n, err := fast.Read(one); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline that is over: %d, %v", n, err)
	}
	_ = fast.SetReadDeadline(time.Time{})
	ended := make(chan error, 1)
	go func() {
		_, err := fast.Read(one)
		ended <- err
	}()
	_ = fast.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline while it waits: %v", err)
	}
	_ = fast.SetReadDeadline(time.Time{})
	if _, err := there.Write([]byte{7}); err != nil {
		t.Fatal(err)
	}
	if n, err := fast.Read(one); n != 1 || err != nil || one[0] != 7 {
		t.Errorf("after deadlines: %d, %v, %v", n, err, one)
	}
	_ = fast.SetWriteDeadline(time.Unix(1, 0))
	if _, err := fast.Write(one); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline of a write: %v", err)
	}
	_ = there.(*net.TCPConn).CloseWrite()
	if n, err := fast.Read(one); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}

	here, _ = pair(t)
	fast = sock.Swift(here)
	go func() {
		_, err := fast.Read(one)
		ended <- err
	}()
	_ = fast.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while it reads: %v", err)
	}
	if _, err := fast.Write(one); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write on what is closed: %v", err)
	}

	here, there = pair(t)
	fast = sock.Swift(here)
	_ = there.(*net.TCPConn).SetLinger(0)
	_ = there.Close()
	if _, err := fast.Read(one); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %v", err)
	}
}

// secured is a pair with TLS on both ends.
func secured(t *testing.T, swift bool) (here, there *tls.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	near, far := pair(t)
	if swift {
		near = sock.Swift(near)
	}
	there = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true})
	here = tls.Client(near, &tls.Config{InsecureSkipVerify: true})
	done := make(chan error, 1)
	go func() { done <- there.Handshake() }()
	if err := errors.Join(here.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return here, there
}

// Idle sees what waits in the kernel, what TLS holds already, part of a record and the
// end; and a connection that was idle goes on.
func TestIdle(t *testing.T) {
	for _, swift := range []bool{true, false} {
		here, there := secured(t, swift)
		for range 2 {
			if !sock.Idle(here) {
				t.Error("an idle connection is not")
			}
		}
		two := make([]byte, 2)
		go func() { _, _ = there.Write([]byte("hi")) }()
		if _, err := io.ReadFull(here, two[:1]); err != nil {
			t.Fatalf("after Idle: %v", err)
		}
		if sock.Idle(here) {
			t.Error("idle with a byte that TLS holds")
		}

		here, there = secured(t, swift)
		raw := there.NetConn()
		if _, err := raw.Write([]byte{23, 3, 3}); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return !sock.Idle(here) })

		here, there = secured(t, swift)
		_ = there.Close()
		await(t, func() bool { return !sock.Idle(here) })

		here, there = secured(t, swift)
		if _, err := there.Write([]byte("nobody asked")); err != nil {
			t.Fatal(err)
		}
		_ = here.SetReadDeadline(time.Unix(1, 0))
		await(t, func() bool { return !sock.Idle(here) })
	}
}

func await(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(15 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("a connection on which something came counts as idle")
		}
	}
}

// What was done before a write comes before what is done after the read of it: the
// race detector must know, or it reports races that are none.
func TestSwiftOrders(t *testing.T) {
	here, there := pair(t)
	a, b := sock.Swift(here), sock.Swift(there)
	said, wrote := 0, make(chan error, 1)
	go func() {
		said = 1
		_, err := a.Write([]byte{1})
		wrote <- err
	}()
	if _, err := io.ReadFull(b, make([]byte, 1)); err != nil || said != 1 {
		t.Errorf("%d was said, %v", said, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// A read and a write make no garbage.
func TestSwiftAllocates(t *testing.T) {
	here, there := pair(t)
	a, b := sock.Swift(here), sock.Swift(there)
	buf := make([]byte, 64)
	n := testing.AllocsPerRun(100, func() {
		if _, err := a.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(b, buf); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// record is a full one of TLS 1.2, which is the longer, and full what four make.
const (
	record = 16<<10 + 29
	full   = 4 * (16<<10 + 64)
)

// What is gathered goes before a wait, when there is too much of it, and at the end;
// what is larger than the memory goes as it is, in order.
func TestBatch(t *testing.T) {
	from, server := pair(t)
	to, program := pair(t)
	src, dst := sock.Swift(from), sock.Swift(to)
	memory := new(sock.Memory)
	if sock.NewBatch(src, to, memory) != nil || sock.NewBatch(from, dst, memory) != nil {
		t.Fatal("a batch of what is not Swift's")
	}
	b := sock.NewBatch(src, dst, memory)
	if sock.NewBatch(src, dst, memory) != nil {
		t.Error("two batches to one connection")
	}
	_ = program.SetReadDeadline(time.Now().Add(20 * time.Second))
	// put writes pieces and then does as it is told, and all of them come.
	put := func(then func(), sizes ...int) {
		t.Helper()
		var text []byte
		for _, n := range sizes {
			text = append(text, make([]byte, n)...)
		}
		_, _ = rand.Read(text)
		came := make(chan error, 1)
		go func() {
			got := make([]byte, len(text))
			_, err := io.ReadFull(program, got)
			if err == nil && !bytes.Equal(got, text) {
				err = errors.New("other bytes came")
			}
			came <- err
		}()
		left := text
		for _, n := range sizes {
			if wrote, err := dst.Write(left[:n]); wrote != n || err != nil {
				t.Fatalf("%d of %d, %v", wrote, n, err)
			}
			left = left[n:]
		}
		then()
		if err := <-came; err != nil {
			t.Fatal(err)
		}
	}
	one := make([]byte, 1)
	read := make(chan error, 1)
	put(func() {
		if _, err := server.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { n, err := b.Read(src, one); return n == 1 && err == nil })
		go func() {
			_, err := b.Read(src, one)
			read <- err
		}()
	}, 40) // though the server says nothing more
	if _, err := server.Write([]byte{2}); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil || one[0] != 2 {
		t.Errorf("%v, %v", one, err)
	}
	put(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}, full-40, 40, 1, full-1, 300_000, 3, full, full+1, 7)
	put(func() {}, 10) // nothing is gathered any more
	_ = server.Close()
	if n, err := b.Read(src, one); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}

	b = sock.NewBatch(src, dst, memory)
	_ = to.Close()
	for range 4 { // in one call
		if _, err := dst.Write(make([]byte, record)); err != nil {
			t.Fatalf("four records are not gathered: %v", err)
		}
	}
	if err := b.Close(); err == nil {
		t.Error("gathered bytes were lost without a word")
	}
}

// Batches that hold nothing have no memory, and one after the other they have the same.
func TestBatchMemory(t *testing.T) {
	const batches, size = 64, 64 << 10
	memory := new(sock.Memory)
	stats := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.GC() // what is pooled goes with the second
		runtime.ReadMemStats(&m)
		return m
	}
	var kept []*sock.Batch
	before := stats()
	for range batches {
		from, server := pair(t)
		to, program := pair(t)
		src, dst := sock.Swift(from), sock.Swift(to)
		b := sock.NewBatch(src, dst, memory)
		if _, err := dst.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = b.Read(src, make([]byte, 1))
		}()
		one := make([]byte, 1)
		if _, err := io.ReadFull(program, one); err != nil { // so it waits, or is about to
			t.Fatal(err)
		}
		_ = server.Close()
		<-over
		kept = append(kept, b)
	}
	after := stats()
	if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > batches*size/2 {
		t.Errorf("%d batches that wait hold %d bytes", batches, n)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > batches*size*3/4 { // with -race a pool forgets a quarter
		t.Errorf("%d batches in turn took %d bytes", batches, n)
	}
	runtime.KeepAlive(kept)
}
