package corpus

import (
	"strings"

	"cloister/escape"
)

func nw30() escape.Case {
	return escape.Case{
		ID: "NW-30", Class: "smuggling", Attack: "two lengths, length and chunks, bare LF, folded lines, NUL, HTTP/0.9, white space before the colon, on port 80",
		Source: "CVE-2025-22871, CVE-2022-1705, CVE-2022-24766", Layers: []string{"form"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			inner := "GET /smuggled30 HTTP/1.1\r\nHost: denied30.test\r\n\r\n"
			post := func(head, body string) string {
				return "POST /x30 HTTP/1.1\r\nHost: allowed.test\r\n" + head + "\r\n" + body
			}
			var out []escape.Try
			for _, t := range []struct{ name, text string }{
				{"length and chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+inner)},
				{"two lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", "01234"+inner)},
				{"a list of lengths", post("Content-Length: 5, 6\r\n", "01234"+inner)},
				{"a signed length", post("Content-Length: +5\r\n", "01234"+inner)},
				{"chunks in another spelling", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"+inner)},
				{"chunks twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+inner)},
				{"white space before the colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"+inner)},
				{"bare LF", "GET /x30 HTTP/1.1\nHost: allowed.test\n\n" + inner},
				{"a folded line", "GET /x30 HTTP/1.1\r\nHost: allowed.test\r\nX: a\r\n b\r\n\r\n"},
				{"NUL in a header", "GET /x30 HTTP/1.1\r\nHost: allowed.test\r\nX: a\x00b\r\n\r\n"},
				{"HTTP/0.9", "GET /x30\r\n\r\n"},
				{"HTTP/2.0 in a line", "GET /x30 HTTP/2.0\r\nHost: allowed.test\r\n\r\n"},
				{"HTTP/1.0 with chunks", "POST /x30 HTTP/1.0\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner},
				{"CR alone", "GET /x30 HTTP/1.1\rHost: allowed.test\r\r" + inner},
				{"white space in the target", "GET /x30 y HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
				// Not a bad chunk: the head before it is a whole one, which the server may
				// have answered before the chunk is looked at. It ends the connection.
			} {
				out = append(out, net1(t.name, func() error { return talk("tcp", to(in, "allowed.test:80"), t.text) }))
			}
			return out
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{found("nothing of it went up", !strings.Contains(sent, "smuggled30"), "%.900s", sent)}
		},
	}
}
