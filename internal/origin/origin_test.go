package origin_test

import (
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"cloister/internal/origin"
)

func TestOriginalDst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	plain, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l := origin.Listener{Listener: plain}
	defer l.Close()
	accept := func() *origin.Conn {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c.(*origin.Conn)
	}
	for _, to := range []string{"203.0.113.9:443", "[2001:db8::1]:80"} {
		c, err := origin.Dial(t.Context(), path, netip.MustParseAddrPort(to))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		c.Close()
		got := accept()
		if dst, err := origin.Of(got); err != nil || dst.String() != to {
			t.Errorf("%s, %v; want %s", dst, err, to)
		}
		if rest, err := io.ReadAll(got); string(rest) != "hello" || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
		got.Close()
	}
	for _, bad := range []string{"", "\x05", "\x03abc", "\xff" + "1.2.3.4:5"} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(bad)); err != nil {
			t.Fatal(err)
		}
		c.Close()
		got := accept()
		if dst, err := origin.Of(got); err == nil {
			t.Errorf("%q was going to %s", bad, dst)
		}
		got.Close()
	}
}
