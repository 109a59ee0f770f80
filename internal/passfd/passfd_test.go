package passfd_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/passfd"
)

const longest = 4096

func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if b, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func temp(t *testing.T, text string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f
}

func soon() time.Time { return time.Now().Add(20 * time.Second) }

func TestLinesAndFilesKeepTheirOrder(t *testing.T) {
	a, b := pair(t)
	out, in := passfd.New(a, nil, longest), passfd.New(b, []byte("early\n"), longest)
	defer in.Discard()
	sent := []struct {
		line  string
		files []string
	}{
		{"plain", nil}, {"two", []string{"f1", "f2"}}, {"", nil}, {"one", []string{"f3"}},
		{strings.Repeat("x", longest-1), nil},
	}
	for _, s := range sent {
		var files []*os.File
		for _, text := range s.files {
			files = append(files, temp(t, text))
		}
		if err := out.Write([]byte(s.line), files, soon()); err != nil {
			t.Fatal(err)
		}
	}
	if line, err := in.Read(); err != nil || string(line) != "early" {
		t.Fatalf("read %q, %v; want what was buffered before", line, err)
	}
	for _, s := range sent {
		line, err := in.Read()
		if err != nil || string(line) != s.line {
			t.Fatalf("read %q, %v; want %q", line, err, s.line)
		}
		files, err := in.Take(len(s.files))
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range files {
			text := make([]byte, 2)
			if _, err := f.ReadAt(text, 0); err != nil || string(text) != s.files[i] {
				t.Errorf("file %d of %q holds %q, %v", i, s.line, text, err)
			}
			if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("file %d would leak into a child", i)
			}
			_ = f.Close()
		}
	}
	_ = a.Close()
	if line, err := in.Read(); err == nil {
		t.Errorf("read %q after the end", line)
	}
}

func TestRefusals(t *testing.T) {
	t.Run("take more than arrived", func(t *testing.T) {
		a, _ := pair(t)
		if _, err := passfd.New(a, nil, longest).Take(1); err == nil {
			t.Error("took a file that never came")
		}
	})
	t.Run("write a newline", func(t *testing.T) {
		a, _ := pair(t)
		if err := passfd.New(a, nil, longest).Write([]byte("a\nb"), nil, soon()); !errors.Is(err, passfd.ErrTooLong) {
			t.Errorf("wrote two lines as one: %v", err)
		}
	})
	t.Run("write too long", func(t *testing.T) {
		a, _ := pair(t)
		if err := passfd.New(a, nil, longest).Write(make([]byte, longest), nil, soon()); !errors.Is(err, passfd.ErrTooLong) {
			t.Errorf("wrote too much: %v", err)
		}
	})
	t.Run("read too long", func(t *testing.T) {
		a, b := pair(t)
		go func() { _, _ = io.Copy(a, strings.NewReader(strings.Repeat("x", 3*longest))) }()
		if _, err := passfd.New(b, nil, longest).Read(); !errors.Is(err, passfd.ErrTooLong) {
			t.Errorf("read too much: %v", err)
		}
	})
	t.Run("a flood of files", func(t *testing.T) {
		a, b := pair(t)
		out, in := passfd.New(a, nil, longest), passfd.New(b, nil, longest)
		defer in.Discard()
		f := temp(t, "x")
		for range 5 {
			if err := out.Write([]byte("x"), []*os.File{f, f, f, f}, soon()); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for range 5 {
			if _, err = in.Read(); err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("more than %d files wait", passfd.MaxFiles)
		}
	})
	t.Run("more files than fit one message", func(t *testing.T) {
		a, b := pair(t)
		in := passfd.New(b, nil, longest)
		defer in.Discard()
		f := temp(t, "x")
		fds := make([]int, 40)
		for i := range fds {
			fds[i] = int(f.Fd())
		}
		if _, _, err := a.WriteMsgUnix([]byte("x\n"), unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Read(); err == nil {
			t.Error("a truncated control message passed")
		}
	})
}

func TestEndRead(t *testing.T) {
	a, b := pair(t)
	near, far := passfd.New(a, nil, longest), passfd.New(b, nil, longest)
	failed := make(chan error)
	go func() {
		_, err := near.Read()
		failed <- err
	}()
	if err := near.EndRead(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read under way: %v", err)
	}
	if err := near.Write([]byte("last"), nil, soon()); err != nil {
		t.Error(err)
	}
	if line, err := far.Read(); err != nil || string(line) != "last" {
		t.Errorf("the other end reads %q, %v", line, err)
	}
}

// FuzzRead: any bytes give lines within the bound that are a prefix of what
// was sent, then an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("left"))
	f.Add(bytes.Repeat([]byte("x"), longest+1), []byte{})
	f.Fuzz(func(t *testing.T, text, leftover []byte) {
		a, b := pair(t)
		go func() {
			_, _ = a.Write(text)
			_ = a.Close()
		}()
		in := passfd.New(b, leftover, longest)
		want := append(bytes.Clone(leftover), text...)
		for {
			line, err := in.Read()
			if err != nil {
				return
			}
			if len(line) >= longest || !bytes.HasPrefix(want, append(line, '\n')) {
				t.Fatalf("read %q of %q", line, want)
			}
			want = want[len(line)+1:]
		}
	})
}
