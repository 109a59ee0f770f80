package wire_test

import (
	"errors"
	"testing"

	"cloister/egress/internal/wire"
)

func TestSOCKSRequest(t *testing.T) {
	tests := []struct {
		name string
		in   string
		n    int
		host string
		port uint16
		code byte // of a SOCKSError
		err  error
	}{
		{"name", "\x05\x01\x00\x03\x06a.test\x01\xbbrest", 13, "a.test", 443, 0, nil},
		{"v4", "\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50", 10, "1.2.3.4", 80, 0, nil},
		{"v6", "\x05\x01\x00\x04\x20\x01\x0d\xb8" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x50", 22, "2001:db8::1", 80, 0, nil},
		{"NUL stays for the judge of names", "\x05\x01\x00\x03\x03a\x00b\x00\x50", 10, "a\x00b", 80, 0, nil},
		{"bind", "\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50", 10, "", 0, wire.SOCKSNoCommand, nil},
		{"address type", "\x05\x01\x00\x02\x01\x02", 0, "", 0, wire.SOCKSNoAddressType, nil},
		{"cut", "\x05\x01\x00\x03\x06a.tes", 0, "", 0, 0, wire.ErrShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, host, port, err := wire.ParseSOCKSRequest([]byte(tt.in))
			if n != tt.n || host != tt.host || port != tt.port {
				t.Errorf("got %d %q %d", n, host, port)
			}
			var se *wire.SOCKSError
			switch {
			case tt.code != 0 && (!errors.As(err, &se) || se.Code != tt.code):
				t.Errorf("error %v, want code %d", err, tt.code)
			case tt.code == 0 && !errors.Is(err, tt.err):
				t.Errorf("error %v, want %v", err, tt.err)
			}
		})
	}
}

func TestSOCKSGreeting(t *testing.T) {
	tests := []struct {
		name, in string
		n        int
		noAuth   bool
		fails    bool
	}{
		{"no authentication", "\x05\x02\x02\x00x", 4, true, false},
		{"password only", "\x05\x01\x02", 3, false, false},
		{"no methods", "\x05\x00", 2, false, false},
		{"version 4", "\x04\x01", 0, false, true},
		{"cut", "\x05\x02\x00", 0, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, ok, err := wire.ParseSOCKSGreeting([]byte(tt.in))
			if n != tt.n || ok != tt.noAuth || (err != nil) != tt.fails {
				t.Fatalf("got %d %v %v", n, ok, err)
			}
		})
	}
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x03\x06a.test\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x02\x02\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if n, _, err := wire.ParseSOCKSGreeting(in); err == nil && (n < 2 || n > len(in)) {
			t.Fatal(n)
		}
		n, host, _, err := wire.ParseSOCKSRequest(in)
		if err == nil && (n < 7 || n > len(in) || len(host) > 255) {
			t.Fatal(n, host)
		}
	})
}
