package wire_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/egress/internal/wire"
)

// clientHello is what Go's own client sends for that name.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	b.Close()
	a.Close()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// record frames handshake bytes.
func record(msg []byte) []byte {
	return append([]byte{22, 3, 1, byte(len(msg) >> 8), byte(len(msg))}, msg...)
}

// hello builds a ClientHello message with the given extensions block.
func hello(exts []byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0)
	if exts != nil {
		body = append(body, byte(len(exts)>>8), byte(len(exts)))
		body = append(body, exts...)
	}
	return append([]byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

func ext(id uint16, data []byte) []byte {
	return append([]byte{byte(id >> 8), byte(id), byte(len(data) >> 8), byte(len(data))}, data...)
}

func serverNames(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, 0, byte(len(n)>>8), byte(len(n)))
		list = append(list, n...)
	}
	return ext(0, append([]byte{byte(len(list) >> 8), byte(len(list))}, list...))
}

func scan(b []byte) (wire.Hello, error) {
	var s wire.HelloScan
	return s.Next(b)
}

func TestHello(t *testing.T) {
	padded := append(serverNames("late.test"), nil...)
	padded = append(ext(21, make([]byte, 20000)), padded...)
	tests := []struct {
		name  string
		in    []byte
		want  wire.Hello
		error string
	}{
		{"a real one", clientHello(t, "api.example.com"), wire.Hello{SNI: true, Names: []string{"api.example.com"}}, ""},
		{"no extensions at all", record(hello(nil)), wire.Hello{}, ""},
		{"no server name", record(hello(ext(43, []byte{2, 3, 4}))), wire.Hello{}, ""},
		{"empty list", record(hello(serverNames())), wire.Hello{SNI: true}, ""},
		{"empty name", record(hello(serverNames(""))), wire.Hello{SNI: true, Names: []string{""}}, ""},
		{"two names", record(hello(serverNames("a.test", "b.test"))), wire.Hello{SNI: true, Names: []string{"a.test", "b.test"}}, ""},
		{"two records", append(record(hello(serverNames("a.test"))[:20]), record(hello(serverNames("a.test"))[20:])...), wire.Hello{SNI: true, Names: []string{"a.test"}}, ""},
		{"name behind 16 KiB", append(record(hello(padded)[:16000]), record(hello(padded)[16000:])...), wire.Hello{SNI: true, Names: []string{"late.test"}}, ""},
		{"trailing bytes after the record", append(record(hello(serverNames("a.test"))), 23, 3, 3, 0, 1, 0), wire.Hello{SNI: true, Names: []string{"a.test"}}, ""},
		{"two server_name extensions", record(hello(append(serverNames("a.test"), serverNames("b.test")...))), wire.Hello{}, "extension 0 twice"},
		{"name of another kind", record(hello(ext(0, []byte{0, 4, 1, 0, 1, 'a'}))), wire.Hello{}, "server name of kind 1"},
		{"list shorter than the extension", record(hello(ext(0, []byte{0, 4, 0, 0, 1, 'a', 0}))), wire.Hello{}, "malformed"},
		{"empty record", []byte{22, 3, 1, 0, 0}, wire.Hello{}, "record of 0 bytes"},
		{"record too large", []byte{22, 3, 1, 0x40, 1}, wire.Hello{}, "record of 16385 bytes"},
		{"hello too large", record([]byte{1, 1, 0, 1}), wire.Hello{}, "longer than"},
		{"alert in between", append(record(hello(serverNames("a.test"))[:20]), 21, 3, 1, 0, 2, 1, 0), wire.Hello{}, "record of type 21"},
		{"another message", record([]byte{2, 0, 0, 1, 0}), wire.Hello{}, "type 2"},
		{"a second message in the record", record(append(hello(serverNames("a.test")), 1)), wire.Hello{}, "second message"},
		{"SSLv2", []byte{0x80, 0x2e, 1, 3, 1}, wire.Hello{}, "record of type 128"},
		{"one byte", []byte{22}, wire.Hello{}, wire.ErrShort.Error()},
		{"cut", record(hello(serverNames("a.test")))[:50], wire.Hello{}, wire.ErrShort.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := scan(tt.in)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("hello (-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.error == "") || (err != nil && !strings.Contains(err.Error(), tt.error)) {
				t.Errorf("error %v, want %q", err, tt.error)
			}
		})
	}
}

// Fed byte by byte the answer is the same as for all at once, and comes with
// the last byte that matters.
func TestHelloByteByByte(t *testing.T) {
	in := append(record(hello(serverNames("a.test"))[:7]), record(hello(serverNames("a.test"))[7:])...)
	var s wire.HelloScan
	for i := range in {
		_, err := s.Next(in[:i])
		if !errors.Is(err, wire.ErrShort) {
			t.Fatalf("after %d of %d bytes: %v", i, len(in), err)
		}
	}
	got, err := s.Next(in)
	if err != nil || len(got.Names) != 1 || got.Names[0] != "a.test" {
		t.Fatalf("got %v, %v", got, err)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(clientHello(f, "api.example.com"))
	f.Add(record(hello(serverNames("a.test", "b.test"))))
	f.Add(record(hello(nil)))
	f.Fuzz(func(t *testing.T, in []byte) {
		var steps wire.HelloScan
		all, errAll := scan(in)
		var got wire.Hello
		err := wire.ErrShort
		for i := 0; i <= len(in) && errors.Is(err, wire.ErrShort); i++ {
			got, err = steps.Next(in[:i])
		}
		if (err == nil) != (errAll == nil) {
			t.Fatalf("by bytes %v, at once %v", err, errAll)
		}
		if err == nil && !cmp.Equal(got, all) {
			t.Fatalf("by bytes %v, at once %v", got, all)
		}
		for _, n := range got.Names {
			if !bytes.Contains(joinRecords(in), []byte(n)) {
				t.Fatalf("name %q is not in the input", n)
			}
		}
	})
}

// joinRecords strips record headers.
func joinRecords(in []byte) []byte {
	var out []byte
	for len(in) >= 5 {
		n := min(int(in[3])<<8|int(in[4]), len(in)-5)
		out = append(out, in[5:5+n]...)
		in = in[5+n:]
	}
	return out
}
