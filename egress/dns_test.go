package egress_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"cloister/egress"
	"cloister/egress/verdict"
)

// question packs a query; edns adds an OPT record of that UDP size.
func question(t testing.TB, name string, kind dnsmessage.Type, class dnsmessage.Class, edns int) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(name)
	if err != nil {
		t.Fatal(err)
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 77, RecursionDesired: true})
	err = errors.Join(b.StartQuestions(), b.Question(dnsmessage.Question{Name: n, Type: kind, Class: class}))
	if edns > 0 {
		var h dnsmessage.ResourceHeader
		err = errors.Join(err, h.SetEDNS0(edns, 0, false), b.StartAdditionals(), b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	msg, err2 := b.Finish()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return msg
}

func (w *world) ask(msg []byte) []byte {
	w.t.Helper()
	c, err := w.resolver().Dial(context.Background(), "udp", "")
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	return exchange(w.t, c, msg)
}

func exchange(t testing.TB, c net.Conn, msg []byte) []byte {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

func unpack(t testing.TB, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return m
}

// ede is the Extended DNS Error of an answer.
func ede(m dnsmessage.Message) (code int, text string) {
	for _, r := range m.Additionals {
		opt, ok := r.Body.(*dnsmessage.OPTResource)
		if !ok {
			continue
		}
		for _, o := range opt.Options {
			if o.Code == 15 {
				return int(binary.BigEndian.Uint16(o.Data)), string(o.Data[2:])
			}
		}
	}
	return -1, ""
}

func TestDNS(t *testing.T) {
	w := newWorld(t, nil)
	w.set("ok.test", allow())
	w.set("ask.test", verdict.Answer{Effect: "ask"})
	w.set("printer.local", verdict.Answer{Effect: "ask"})
	w.set("wpad", verdict.Answer{Effect: "ask"})
	w.set("db", allow())
	w.set("no.test", verdict.Answer{Effect: "deny", Rule: "deny no.test", Place: "config.yaml:3", Reason: "never"})
	const (
		success = dnsmessage.RCodeSuccess
		nx      = dnsmessage.RCodeNameError
	)
	tests := []struct {
		name    string
		kind    dnsmessage.Type
		class   dnsmessage.Class
		rcode   dnsmessage.RCode
		answers int
		ede     int
		text    string
	}{
		{"ok.test.", dnsmessage.TypeA, dnsmessage.ClassINET, success, 1, -1, ""},
		{"OK.Test.", dnsmessage.TypeA, dnsmessage.ClassINET, success, 1, -1, ""},
		{"ask.test.", dnsmessage.TypeA, dnsmessage.ClassINET, success, 1, -1, ""},
		{"ok.test.", dnsmessage.TypeAAAA, dnsmessage.ClassINET, success, 0, -1, ""},
		{"ok.test.", 65, dnsmessage.ClassINET, success, 0, -1, ""},
		{"ok.test.", 64, dnsmessage.ClassINET, success, 0, -1, ""},
		{"ok.test.", dnsmessage.TypeTXT, dnsmessage.ClassINET, success, 0, -1, ""},
		{"ok.test.", dnsmessage.TypeALL, dnsmessage.ClassINET, success, 0, -1, ""},
		{"ok.test.", dnsmessage.TypeTXT, dnsmessage.ClassCHAOS, dnsmessage.RCodeRefused, 0, -1, ""},
		{"no.test.", dnsmessage.TypeA, dnsmessage.ClassINET, nx, 0, 15, "config.yaml:3"},
		{"unlisted.test.", dnsmessage.TypeA, dnsmessage.ClassINET, nx, 0, 18, "--allow unlisted.test"},
		{"unlisted.test.", dnsmessage.TypeAAAA, dnsmessage.ClassINET, nx, 0, 18, ""},
		{"canary-data.ok.test.evil.test.", dnsmessage.TypeTXT, dnsmessage.ClassINET, nx, 0, 18, ""},
		{"printer.local.", dnsmessage.TypeA, dnsmessage.ClassINET, nx, 0, 17, "local network"},
		{"wpad.", dnsmessage.TypeA, dnsmessage.ClassINET, nx, 0, 17, "local network"},
		{"db.", dnsmessage.TypeA, dnsmessage.ClassINET, success, 1, -1, ""},
		{"_dmarc.ok.test.", dnsmessage.TypeTXT, dnsmessage.ClassINET, nx, 0, 17, "_"},
		{"0x7f.1.", dnsmessage.TypeA, dnsmessage.ClassINET, nx, 0, 17, "number"},
		{"127.0.0.1.", dnsmessage.TypeA, dnsmessage.ClassINET, nx, 0, 17, "address"},
		{"nul\x00.ok.test.", dnsmessage.TypeA, dnsmessage.ClassINET, nx, 0, 17, "0x00"},
		{"proxy.cloister.internal.", dnsmessage.TypeA, dnsmessage.ClassINET, success, 1, -1, ""},
		{"proxy.cloister.internal.", dnsmessage.TypeAAAA, dnsmessage.ClassINET, success, 0, -1, ""},
		{"localhost.", dnsmessage.TypeA, dnsmessage.ClassINET, success, 1, -1, ""},
		{"1.0.0.10.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.ClassINET, nx, 0, -1, ""},
		{".", dnsmessage.TypeNS, dnsmessage.ClassINET, nx, 0, 17, ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s", strings.ToValidUTF8(tt.name, "?"), tt.kind), func(t *testing.T) {
			raw := w.ask(question(t, tt.name, tt.kind, tt.class, 1232))
			m := unpack(t, raw)
			if m.ID != 77 || !m.Response || !m.RecursionAvailable || len(m.Questions) != 1 {
				t.Errorf("header %+v", m.Header)
			}
			if m.RCode != tt.rcode || len(m.Answers) != tt.answers {
				t.Errorf("%v with %d answers", m.RCode, len(m.Answers))
			}
			if code, text := ede(m); code != tt.ede || !strings.Contains(text, tt.text) {
				t.Errorf("extended error %d %q", code, text)
			}
			if plain := unpack(t, w.ask(question(t, tt.name, tt.kind, tt.class, 0))); len(plain.Additionals) != 0 {
				t.Errorf("EDNS in an answer to a question without: %+v", plain.Additionals)
			}
		})
	}
}

func TestDNSAddresses(t *testing.T) {
	w, again := newWorld(t, nil), newWorld(t, nil)
	for _, x := range []*world{w, again} {
		for i := range 50 {
			x.set(fmt.Sprintf("n%d.test", i), allow())
		}
	}
	look := func(w *world, i int) netip.Addr {
		addrs, err := w.resolver().LookupNetIP(t.Context(), "ip4", fmt.Sprintf("n%d.test", i))
		if err != nil || len(addrs) != 1 {
			t.Fatal(addrs, err)
		}
		return addrs[0].Unmap()
	}
	seen := map[netip.Addr]int{}
	for i := range 50 {
		a := look(w, i)
		if !netip.MustParsePrefix("198.18.0.0/15").Contains(a) || a == netip.MustParseAddr("198.18.0.1") {
			t.Errorf("%v is no synthetic address", a)
		}
		if j, ok := seen[a]; ok {
			t.Errorf("n%d and n%d share %v", i, j, a)
		}
		seen[a] = i
		if b := look(w, i); a != b {
			t.Errorf("n%d moved from %v to %v", i, a, b)
		}
		if b := look(again, i); a != b {
			t.Errorf("n%d is %v for the next guardian, was %v", i, b, a)
		}
	}
	a := look(w, 7)
	names, err := w.resolver().LookupAddr(t.Context(), a.String())
	if err != nil || len(names) != 1 || names[0] != "n7.test." {
		t.Errorf("reverse: %v, %v", names, err)
	}
}

func TestDNSNamesAreBounded(t *testing.T) {
	w := newWorld(t, nil, func(c *egress.Config) { c.Limits.Names = 2 })
	w.set("*", allow())
	for i := range 3 {
		m := unpack(t, w.ask(question(t, fmt.Sprintf("n%d.test.", i), dnsmessage.TypeA, dnsmessage.ClassINET, 1232)))
		if want := i < 2; (m.RCode == dnsmessage.RCodeSuccess) != want {
			t.Errorf("name %d: %v", i, m.RCode)
		}
	}
}

// The answer comes from the address that was asked, of which the wildcard
// socket has many: a connected UDP socket takes no other.
func TestDNSAnswersFromTheAskedAddress(t *testing.T) {
	w := newWorld(t, nil)
	w.set("ok.test", allow())
	c, err := net.Dial("udp", fmt.Sprintf("127.7.7.7:%d", w.dns.LocalAddr().(*net.UDPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if m := unpack(t, exchange(t, c, question(t, "ok.test.", dnsmessage.TypeA, dnsmessage.ClassINET, 0))); len(m.Answers) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestDNSOverTCP(t *testing.T) {
	w := newWorld(t, nil)
	w.set("ok.test", allow())
	c, err := net.Dial("tcp", w.dnsTCP.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg := question(t, "ok.test.", dnsmessage.TypeA, dnsmessage.ClassINET, 0)
	framed := append([]byte{byte(len(msg) >> 8), byte(len(msg))}, msg...)
	for range 2 {
		if _, err := c.Write(framed); err != nil {
			t.Fatal(err)
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			t.Fatal(err)
		}
		out := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, out); err != nil {
			t.Fatal(err)
		}
		if m := unpack(t, out); len(m.Answers) != 1 {
			t.Errorf("%+v", m)
		}
	}
}

func TestDNSMalformed(t *testing.T) {
	w := newWorld(t, nil)
	w.set("*", allow())
	q := question(t, "ok.test.", dnsmessage.TypeA, dnsmessage.ClassINET, 0)
	change := func(f func(b []byte) []byte) []byte { return f(append([]byte(nil), q...)) }
	for _, tt := range []struct {
		name string
		msg  []byte
		want dnsmessage.RCode
	}{
		{"two questions", change(func(b []byte) []byte { b[5] = 2; return append(b, b[12:]...) }), dnsmessage.RCodeFormatError},
		{"no question", change(func(b []byte) []byte { b[5] = 0; return b[:12] }), dnsmessage.RCodeFormatError},
		{"cut", q[:len(q)-3], dnsmessage.RCodeFormatError},
		{"status request", change(func(b []byte) []byte { b[2] |= 2 << 3; return b }), dnsmessage.RCodeNotImplemented},
		{"update", change(func(b []byte) []byte { b[2] |= 5 << 3; return b }), dnsmessage.RCodeNotImplemented},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m := unpack(t, w.ask(tt.msg)); m.RCode != tt.want || len(m.Answers) != 0 {
				t.Errorf("%v", m.RCode)
			}
		})
	}
	if n := w.count(verdict.Resolve); n != 0 {
		t.Errorf("%d malformed questions were decided", n)
	}
}

// A long reason gives way to the size the program can take.
func TestDNSFits(t *testing.T) {
	w := newWorld(t, nil)
	w.set("*", verdict.Answer{Reason: strings.Repeat("é", 2000)})
	for _, size := range []int{512, 1232, 4096} {
		raw := w.ask(question(t, "x.test.", dnsmessage.TypeA, dnsmessage.ClassINET, size))
		if len(raw) > min(size, 1232) {
			t.Errorf("%d bytes for %d", len(raw), size)
		}
		if code, text := ede(unpack(t, raw)); code != 18 || !strings.Contains(text, "ééé") {
			t.Errorf("extended error %d %q", code, text)
		}
	}
}
