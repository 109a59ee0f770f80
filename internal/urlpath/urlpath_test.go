package urlpath_test

import (
	"strings"
	"testing"

	"cloister/internal/urlpath"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ raw, wire, plain string }{
		{"/", "/", "/"},
		{"/a/b", "/a/b", "/a/b"},
		{"/a/b/", "/a/b/", "/a/b"},
		{"//a///b", "/a/b", "/a/b"},
		{"/a/./b", "/a/b", "/a/b"},
		{"/a/x/../b", "/a/b", "/a/b"},
		{"/a/x/..", "/a/", "/a"},
		{"/a/%2e%2e/b", "/b", "/b"},
		{"/a/%2E/b", "/a/b", "/a/b"},
		{"/%61%62", "/ab", "/ab"},
		{"/a%20b", "/a%20b", "/a b"},
		{"/caf%c3%a9", "/caf%C3%A9", "/café"},
		{"/@types%2fnode", "/@types%2Fnode", "/@types/node"},
		{"/caf%e9", "/caf%E9", "/caf\xe9"}, // Latin-1
		{"/%e2%82%ac%f0%9f%98%80", "/%E2%82%AC%F0%9F%98%80", "/€😀"},
		{"/a%20/b", "/a%20/b", "/a /b"},
		{"/...", "/...", "/..."},
		{"/.well-known/x", "/.well-known/x", "/.well-known/x"},
		{"/a..b/.c", "/a..b/.c", "/a..b/.c"},
	} {
		p, err := urlpath.Parse(tt.raw)
		if err != nil || p.Wire() != tt.wire || p.String() != tt.plain {
			t.Errorf("%q: wire %q, plain %q, %v", tt.raw, p.Wire(), p.String(), err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, raw := range []string{
		"", "a", "/..", "/a/../../b", "/%2e%2e/%2e%2e", "/%", "/%4", "/%zz", "/a%00", "/a%0d%0ab", "/a%7f",
		`/a\..\b`, "/a%5c..%5cb", "/a%2f..%2fb", "/a;v=1/b", "/public/admin;x/secret", "/a/%2f/b", "/x%2f%2fy", "/..;/a", "/a/..;x=1/b", "/.;/a", "/;/a",
		"/a%252e%252e", "/a%252fb", "/%25%32%65", "/a%2525", "/%c0%80\x01", "/a/%c0%ae%c0%ae/b", "/a/..%c0%afb", "/%c1%9c", "/%e0%80%ae", "/%f0%80%80%af", "/\xc0\xae", "/a/..%20/b", "/a/.%20",
		strings.Repeat("/a", 600), strings.Repeat("/%61", 600),
	} {
		if p, err := urlpath.Parse(raw); err == nil {
			t.Errorf("%q: read as %q", raw, p.String())
		}
	}
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		glob string
		yes  string
		no   string
	}{
		{"/repos/acme/**", "/repos/acme /repos/acme/ /repos/acme/x /repos/acme/x/y", "/repos /repos/acmex /repos/evil /repos/acme/../evil /Repos/acme"},
		{"/repos/*/issues", "/repos/a/issues /repos/a/issues/", "/repos/issues /repos/a/b/issues /repos/a/issues/1"},
		{"/a/**/z", "/a/z /a/b/z /a/b/c/z", "/a /a/z/b"},
		{"/*.git/info/refs", "/x.git/info/refs", "/a/x.git/info/refs /x.git/info"},
		{"/**", "/ /a /a/b", ""},
		{"/", "/", "/a"},
		{"/@acme/**", "/@acme%2fpkg /@acme/pkg /%40acme/pkg", "/@other%2fpkg"},
		{"/v*/x*y", "/v1/xy /v/xzzy", "/v1/xyz"},
	} {
		g, err := urlpath.ParseGlob(tt.glob)
		if err != nil {
			t.Fatalf("%s: %v", tt.glob, err)
		}
		for want, list := range map[bool]string{true: tt.yes, false: tt.no} {
			for raw := range strings.FieldsSeq(list) {
				p, err := urlpath.Parse(raw)
				if err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				if g.Match(p) != want {
					t.Errorf("%s matches %s: %t", tt.glob, raw, !want)
				}
			}
		}
	}
	for _, bad := range []string{"", "a", "/a?b", "/%61", "/a//b", "/../a", "/**/a/**", "/a**", "/a;b", `/a\b`} {
		if _, err := urlpath.ParseGlob(bad); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

// FuzzParse holds what is read to its promise: the wire form is a fixed point,
// and means the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/a", "//a;x/%2fb", "/a%252e", "/@a%2fb/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := urlpath.Parse(raw)
		if err != nil {
			return
		}
		q, err := urlpath.Parse(p.Wire())
		if err != nil || q.Wire() != p.Wire() || q.String() != p.String() {
			t.Fatalf("%q: %q then %q (%v)", raw, p.Wire(), q.Wire(), err)
		}
		for _, s := range p.Segments() {
			if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\\\x00\r\n") {
				t.Fatalf("%q has the segment %q", raw, s)
			}
		}
	})
}
