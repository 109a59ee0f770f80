package corpus

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// on is one try of something on a file; the usual refusals count.
func on(name string, do func() error) escape.Try { return escape.Try{Name: name, Do: do} }

// appendTo writes a case's name at the end of a file that is there.
func appendTo(path, id string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("by " + id + "\n")
	return errors.Join(err, f.Close())
}

// create makes a file that is not there, or writes one that is.
func create(path, id string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("by " + id + "\n")
	return errors.Join(err, f.Close())
}

// below makes the folders above a path, then the file.
func below(path, id string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return create(path, id)
}

// secrets looks for the canary's text in a file.
func secrets(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return escape.ErrNothing
	}
	return nil
}

// openFor opens and changes nothing.
func openFor(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func errnos(list ...syscall.Errno) []error {
	var out []error
	for _, e := range list {
		out = append(out, e)
	}
	return out
}

// call is one raw system call. The answers that show that the kernel's own code
// was reached are open ones.
type call struct {
	name    string
	nr      uintptr
	args    []uintptr
	open    []error
	held    []error
	control escape.Control
	why     string
}

func (c call) try() escape.Try {
	held := c.held
	if held == nil {
		held = errnos(syscall.EPERM, syscall.ENOSYS)
	}
	return escape.Try{Name: c.name, Held: held, Open: c.open, Control: c.control, Why: c.why, Do: func() error {
		var a [6]uintptr
		copy(a[:], c.args)
		if _, _, errno := syscall.Syscall6(c.nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}}
}

func calls(list ...call) []escape.Try {
	var out []escape.Try
	for _, c := range list {
		out = append(out, c.try())
	}
	return out
}

const minusOne = ^uintptr(0)

// gone are the answers of a network that leads nowhere.
func gone() []error {
	return []error{
		escape.ErrRefused, escape.ErrNothing, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENETUNREACH, syscall.EHOSTUNREACH,
		syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.EADDRNOTAVAIL, syscall.EINVAL,
	}
}

// sink is where the host listens on an address of its own.
func sink(in escape.Inside) string { return "127.0.0.1:" + strconv.Itoa(in.Port) }

// to is the destination of an attempt; the control goes to the sink instead.
func to(in escape.Inside, addr string) string {
	if in.Control {
		return sink(in)
	}
	return addr
}

// patience is how long an attempt waits for an answer: far longer than any takes,
// since one that does not come in time proves nothing.
const patience = 30 * time.Second

// talk connects, says something and reads an answer. Whatever an enemy's server
// could have said back is nil.
func talk(network, addr, text string) error {
	c, err := net.DialTimeout(network, addr, patience)
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	return converse(c, text)
}

// converse says something and judges what comes back.
func converse(c net.Conn, text string) error {
	wait := patience
	if c.LocalAddr().Network() == "udp" { // no answer is one
		wait = 4 * time.Second
	}
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return plain(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	got := buf[:n]
	switch {
	case bytes.HasPrefix(got, []byte("HTTP/1.1 4")) || bytes.HasPrefix(got, []byte("HTTP/1.1 5")):
		return escape.ErrRefused
	case len(got) > 0 && got[0] == 21: // a TLS alert
		return escape.ErrRefused
	case len(got) > 0:
		return nil
	case errors.Is(err, io.EOF):
		return escape.ErrRefused
	case c.LocalAddr().Network() == "udp" && errors.Is(err, os.ErrDeadlineExceeded):
		return escape.ErrNothing // nobody answers a datagram to say no
	}
	return plain(err)
}

// plain is the kernel's answer within an error of the net package, and a DNS
// refusal as one.
func plain(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return escape.ErrRefused
	}
	return err
}

// proxyAt is the explicit proxy of a cloister.
const proxyAt = "proxy.cloister.internal:3128"

// raw sends bytes to the proxy, or to the sink where it is a control.
func raw(in escape.Inside, text string) error { return talk("tcp", to(in, proxyAt), text) }

// connects asks the proxy for a tunnel.
func connects(in escape.Inside, target string) error {
	return raw(in, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
}

// answered is nil when the proxy opened the way or the server behind it
// answered: what a try that must come off wants.
func tunnel(name, target string, in escape.Inside) escape.Try {
	return escape.Try{Name: name, Do: func() error { return connects(in, target) }, Held: gone()}
}

// net1 is a try on the network with the usual refusals.
func net1(name string, do func() error) escape.Try {
	return escape.Try{Name: name, Do: do, Held: gone()}
}

// gate is what attempts need that go by the proxy or ask for a name: without it
// they reach nothing, and that nothing is no wall.
func gate() map[escape.Layer]string {
	return map[escape.Layer]string{escape.Net: "the proxy and every name are the gate's"}
}

// noImages is why a case of images has no meaning on the user level.
const noImages = "an image is refused by a line: root's helper reads none that its caller could have written"

func found(name string, held bool, format string, args ...any) escape.Finding {
	return escape.Found(name, held, format, args...)
}

// exists tells whether a path is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// here excuses the control of a device or server that this host has not.
func here(path string, control escape.Control) (escape.Control, string) {
	if !exists(path) {
		return escape.ByNobody, path + " is not on this host"
	}
	return control, ""
}

// modeBits are the set-id bits of files below a folder.
func modeBits(root string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice) != 0 {
			out = append(out, path+" "+fi.Mode().String())
		}
		return nil
	})
	return out, err
}

// unwanted are the events of a text that must not be in it.
func unwanted(text string, words ...string) []string {
	var out []string
	for _, word := range words {
		if strings.Contains(text, word) {
			out = append(out, word)
		}
	}
	return out
}

// fdOf opens a path for a system call that wants a descriptor.
func fdOf(path string, flags int) (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) }

// clean removes what a look at the host made.
func clean(paths ...string) {
	for _, p := range paths {
		_ = os.RemoveAll(p) // what cannot be removed is found by the next case
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// lockThread keeps what follows on one thread: a tracer is a thread.
func lockThread() { runtime.LockOSThread() }
