package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/egress/internal/wire"
)

func parseRequest(in string) (*wire.Request, error) {
	var s wire.HeadScan
	n, err := s.Next([]byte(in))
	if err != nil {
		return nil, err
	}
	return wire.ParseRequest([]byte(in)[:n])
}

func TestRequestRefused(t *testing.T) {
	const h = "Host: a.test\r\n"
	tests := []struct {
		name, in string
		status   int
		reason   string
	}{
		{"CL and TE", "POST / HTTP/1.1\r\n" + h + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "both"},
		{"TE and CL", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400, "both"},
		{"two CL", "POST / HTTP/1.1\r\n" + h + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "2 Content-Length"},
		{"two equal CL", "POST / HTTP/1.1\r\n" + h + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400, "2 Content-Length"},
		{"CL list", "POST / HTTP/1.1\r\n" + h + "Content-Length: 1, 1\r\n\r\n", 400, "no number"},
		{"CL sign", "POST / HTTP/1.1\r\n" + h + "Content-Length: +1\r\n\r\n", 400, "no number"},
		{"CL empty", "POST / HTTP/1.1\r\n" + h + "Content-Length:\r\n\r\n", 400, "no number"},
		{"CL huge", "POST / HTTP/1.1\r\n" + h + "Content-Length: 9999999999999999999\r\n\r\n", 400, "no number"},
		{"TE xchunked", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: xchunked\r\n\r\n", 400, "other than chunked"},
		{"TE gzip, chunked", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400, "other than chunked"},
		{"TE twice", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 400, "2 Transfer-Encoding"},
		{"TE with vertical tab", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: \vchunked\r\n\r\n", 400, "control byte"},
		{"TE underscore", "POST / HTTP/1.1\r\n" + h + "Transfer_Encoding: chunked\r\n\r\n", 400, "underscore"},
		{"TE in 1.0", "POST / HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n", 400, "HTTP/1.0"},
		{"bare LF", "GET / HTTP/1.1\n" + h + "\r\n", 400, "line feed"},
		{"bare LF at the end", "GET / HTTP/1.1\r\n" + h + "\n", 400, "line feed"},
		{"bare CR", "GET / HTTP/1.1\r\n" + h + "X: a\rb\r\n\r\n", 400, "carriage return"},
		{"obs-fold", "GET / HTTP/1.1\r\n" + h + "X: a\r\n b\r\n\r\n", 400, "folded"},
		{"obs-fold first", "GET / HTTP/1.1\r\n " + h + "\r\n", 400, "folded"},
		{"NUL in a value", "GET / HTTP/1.1\r\n" + h + "X: a\x00b\r\n\r\n", 400, "NUL"},
		{"space before colon", "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n", 400, "before the colon"},
		{"tab before colon", "GET / HTTP/1.1\r\nHost\t: a.test\r\n\r\n", 400, "before the colon"},
		{"field without colon", "GET / HTTP/1.1\r\n" + h + "X\r\n\r\n", 400, "without colon"},
		{"empty name", "GET / HTTP/1.1\r\n" + h + ": x\r\n\r\n", 400, "no token"},
		{"HTTP/0.9", "GET /\r\n\r\n", 400, "METHOD TARGET"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", 505, "version"},
		{"HTTP/1.2", "GET / HTTP/1.2\r\n" + h + "\r\n", 505, "version"},
		{"http lower case", "GET / http/1.1\r\n" + h + "\r\n", 400, "does not end"},
		{"two spaces", "GET  / HTTP/1.1\r\n" + h + "\r\n", 400, ""},
		{"trailing space", "GET / HTTP/1.1 \r\n" + h + "\r\n", 400, ""},
		{"tab as space", "GET\t/\tHTTP/1.1\r\n" + h + "\r\n", 400, ""},
		{"leading empty line", "\r\nGET / HTTP/1.1\r\n" + h + "\r\n", 400, "empty line"},
		{"fragment", "GET /#a HTTP/1.1\r\n" + h + "\r\n", 400, "fragment"},
		{"raw UTF-8 in the target", "GET /\xc3\xa9 HTTP/1.1\r\n" + h + "\r\n", 400, "0xc3"},
		{"no Host", "GET / HTTP/1.1\r\nX: y\r\n\r\n", 400, "no Host"},
		{"two Hosts", "GET / HTTP/1.1\r\n" + h + h + "\r\n", 400, "2 Host"},
		{"method", "G@T / HTTP/1.1\r\n" + h + "\r\n", 400, "method"},
		{"64 KiB", "GET / HTTP/1.1\r\n" + h + "X: " + strings.Repeat("a", wire.MaxHead) + "\r\n\r\n", 431, "longer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := parseRequest(tt.in)
			var syntax *wire.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %+v, %v", r, err)
			}
			if syntax.Status != tt.status || !strings.Contains(syntax.Msg, tt.reason) {
				t.Errorf("got %d %q, want %d %q", syntax.Status, syntax.Msg, tt.status, tt.reason)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	got, err := parseRequest("POST /a?b=c HTTP/1.1\r\nhOsT:\ta.test \r\nX-Bytes: \xff\xfe\r\nTransfer-Encoding: Chunked\r\n\r\nrest")
	want := &wire.Request{
		Method: "POST", Target: "/a?b=c", Minor: 1, Host: "a.test", Body: wire.Chunked,
		Header: wire.Header{{Name: "hOsT", Value: "a.test"}, {Name: "X-Bytes", Value: "\xff\xfe"}, {Name: "Transfer-Encoding", Value: "Chunked"}},
	}
	if err != nil || !cmp.Equal(want, got) {
		t.Fatalf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
}

func TestResponse(t *testing.T) {
	tests := []struct {
		name, in, method string
		want             wire.Framing
		length           int64
		refused          bool
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET", wire.Length, 5, false},
		{"length zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "GET", wire.Length, 0, false},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", wire.Chunked, 0, false},
		{"until close", "HTTP/1.0 200 OK\r\n\r\n", "GET", wire.UntilClose, 0, false},
		{"head", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", wire.NoBody, 0, false},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", "GET", wire.NoBody, 0, false},
		{"304 with length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET", wire.NoBody, 0, false},
		{"100", "HTTP/1.1 100 Continue\r\n\r\n", "POST", wire.NoBody, 0, false},
		{"no reason phrase", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "GET", wire.Length, 0, false},
		{"both framings", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", 0, 0, true},
		{"status", "HTTP/1.1 20 OK\r\n\r\n", "GET", 0, 0, true},
		{"status 999", "HTTP/1.1 999 OK\r\n\r\n", "GET", 0, 0, true},
		{"icy", "ICY 200 OK\r\n\r\n", "GET", 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.ParseResponse([]byte(tt.in), tt.method)
			if tt.refused {
				if err == nil {
					t.Fatalf("got %+v", got)
				}
				return
			}
			if err != nil || got.Body != tt.want || got.Length != tt.length {
				t.Fatalf("got %+v, %v", got, err)
			}
		})
	}
}

func TestChunkLine(t *testing.T) {
	tests := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"5", 5, true}, {"fF", 255, true}, {"5;a=b", 5, true}, {"5 ;a=\"b\"", 5, true},
		{"", 0, false}, {"-1", 0, false}, {"0x5", 0, false}, {" 5", 0, false}, {"5 5", 0, false},
		{"5;a\rb", 0, false}, {"5;a\nb", 0, false}, {"10000000000000000", 0, false}, {"+5", 0, false}, {"5_0", 0, false},
	}
	for _, tt := range tests {
		if got, err := wire.ParseChunkLine(tt.in); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %d, %v", tt.in, got, err)
		}
	}
}

func TestGuessProtocol(t *testing.T) {
	tests := []struct {
		name, in string
		want     wire.Guess
		short    bool
	}{
		{"nothing", "", wire.Raw, true},
		{"request", "GET / HTTP/1.1\r\n", wire.HTTP, false},
		{"bare LF request", "GET / HTTP/1.1\n", wire.HTTP, false},
		{"padded", "GET / HTTP/1.1 \t\r\n", wire.HTTP, false},
		{"lower case", "get / http/1.0\r\n", wire.HTTP, false},
		{"tabs", "GET\t/\tHTTP/1.1\r\n", wire.HTTP, false},
		{"empty line first", "\r\nGET", wire.HTTP, false},
		{"line feed first", "\n", wire.HTTP, false},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM", wire.HTTP, false},
		{"half a line", "GET / HTT", wire.Raw, true},
		{"tls", "\x16\x03\x01", wire.TLS, false},
		{"half of tls", "\x16", wire.Raw, true},
		{"0x16 that is no tls", "\x16\x00", wire.Raw, false},
		{"postgres", "\x00\x00\x00\x08\x04\xd2\x16\x2f", wire.Raw, false},
		{"ssh", "SSH-2.0-OpenSSH_9\r\n", wire.Raw, false},
		{"redis", "*1\r\n$4\r\nPING\r\n", wire.Raw, false},
		{"binary after text", "abc\x01", wire.Raw, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.GuessProtocol([]byte(tt.in))
			if got != tt.want || errors.Is(err, wire.ErrShort) != tt.short {
				t.Fatalf("got %d, %v", got, err)
			}
		})
	}
}

// Whatever head is accepted, writing it out again and reading that gives the
// same message: there is one meaning.
func FuzzRequestHead(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"POST http://a.test/x HTTP/1.0\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n",
		"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a\r\n b\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var steps, once wire.HeadScan
		n, errOnce := once.Next(in)
		m, err := 0, wire.ErrShort
		for i := 0; i <= len(in) && errors.Is(err, wire.ErrShort); i++ {
			m, err = steps.Next(in[:i])
		}
		if n != m || (err == nil) != (errOnce == nil) {
			t.Fatalf("by bytes %d %v, at once %d %v", m, err, n, errOnce)
		}
		if err != nil {
			return
		}
		r, err := wire.ParseRequest(in[:n])
		if err != nil {
			return
		}
		proto := " HTTP/1.1\r\n"
		if r.Minor == 0 {
			proto = " HTTP/1.0\r\n"
		}
		out := r.Header.Append([]byte(r.Method + " " + r.Target + proto))
		again, err := wire.ParseRequest(append(out, "\r\n"...))
		if err != nil || !cmp.Equal(r, again) {
			t.Fatalf("again %v:\n%s", err, cmp.Diff(r, again))
		}
		if bytes.Contains([]byte(r.Host), []byte("\n")) {
			t.Fatal("line feed in Host")
		}
	})
}

func FuzzResponseHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), "GET")
	f.Add([]byte("HTTP/1.0 404 \r\n\r\n"), "HEAD")
	f.Fuzz(func(t *testing.T, in []byte, method string) {
		r, err := wire.ParseResponse(in, method)
		if err == nil && (r.Status < 100 || r.Status > 599 || r.Length < 0) {
			t.Fatalf("%+v", r)
		}
	})
}

func FuzzChunkLine(f *testing.F) {
	f.Add("5;a=b")
	f.Fuzz(func(t *testing.T, in string) {
		if n, err := wire.ParseChunkLine(in); err == nil && n < 0 {
			t.Fatal(n)
		}
	})
}

func FuzzGuess(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte("\x16\x03\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		kind, err := wire.GuessProtocol(in)
		if err != nil {
			return
		}
		// More bytes never change an answer that was given.
		if again, err := wire.GuessProtocol(append(bytes.Clone(in), "x\r\n HTTP/1.1\r\n"...)); err != nil || again != kind {
			t.Fatalf("%d then %d, %v", kind, again, err)
		}
	})
}
