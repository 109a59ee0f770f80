package corpus

import (
	"cloister/escape"
	"strings"
)

func nw30a() escape.Case {
	return escape.Case{
		ID: "NW-30a", Class: "smuggling within TLS", Attack: "what NW-30 tries, within TLS that is opened, to a server that takes everything: lengths, chunks, trailers, lines, targets, Hosts, more than one request in one",
		Source: "CVE-2025-22871, CVE-2022-1705, CVE-2022-24766, CVE-2021-39214", Layers: []string{"form", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			const name = escape.RawName
			inner := "GET /smuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n"
			req := func(head, body string) string {
				return "POST /ok/x HTTP/1.1\r\nHost: " + name + "\r\n" + head + "\r\n" + body
			}
			out := []escape.Try{good("a request", in, func() error { return within(in, name, "GET /ok/good30a HTTP/1.1\r\nHost: "+name+"\r\n\r\n") })}
			for what, text := range map[string]string{
				"length and chunks":             req("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+inner),
				"chunks and length":             req("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"+inner),
				"two lengths":                   req("Content-Length: 5\r\nContent-Length: 6\r\n", "01234"+inner),
				"a list of lengths":             req("Content-Length: 5, 6\r\n", "01234"+inner),
				"a signed length":               req("Content-Length: +5\r\n", "01234"+inner),
				"a length in hex":               req("Content-Length: 0x5\r\n", "01234"+inner),
				"a length with a space":         req("Content-Length: 5 0\r\n", "01234"+inner),
				"a length that is too large":    req("Content-Length: 18446744073709551621\r\n", "01234"+inner),
				"an empty length":               req("Content-Length: \r\n", inner),
				"other chunks":                  req("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"+inner),
				"chunks and identity":           req("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+inner),
				"chunks in gzip":                req("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"+inner),
				"chunks in quotes":              req("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"+inner),
				"chunks behind a tab":           req("Transfer-Encoding:\tx, chunked\r\n", "0\r\n\r\n"+inner),
				"chunks behind VT":              req("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"+inner),
				"white space before the colon":  req("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"+inner),
				"a name with a space":           req("Transfer Encoding: chunked\r\n", "0\r\n\r\n"+inner),
				"a line without a colon":        req("Transfer-Encoding\r\n", "0\r\n\r\n"+inner),
				"a line that begins with space": req(" Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+inner),
				"bare LF":                       "GET /ok/x HTTP/1.1\nHost: " + name + "\n\n" + inner,
				"bare LF in the head":           req("X: a\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+inner),
				"bare CR in the head":           req("X: a\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+inner),
				"a folded line":                 req("X: a\r\n b\r\n", ""),
				"NUL in a field":                req("X: a\x00b\r\n", ""),
				"an empty name":                 req(": a\r\n", ""),
				"HTTP/0.9":                      "GET /ok/x\r\n\r\n",
				"HTTP/1.2":                      "GET /ok/x HTTP/1.2\r\nHost: " + name + "\r\n\r\n",
				"HTTP/2.0 in a line":            "GET /ok/x HTTP/2.0\r\nHost: " + name + "\r\n\r\n",
				"http in small letters":         "GET /ok/x http/1.1\r\nHost: " + name + "\r\n\r\n",
				"HTTP/1.0 with chunks":          "POST /ok/x HTTP/1.0\r\nHost: " + name + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
				"two Hosts":                     "GET /ok/x HTTP/1.1\r\nHost: " + name + "\r\nHost: front30a.test\r\n\r\n",
				"no Host":                       "GET /ok/x HTTP/1.1\r\n\r\n",
				"white space in the target":     "GET /ok/x y HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"a tab in the line":             "GET\t/ok/x\tHTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"a fragment":                    "GET /ok/x#/../../smuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"a backslash":                   "GET /ok\\..\\smuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"a slash, twice encoded":        "GET /ok/..%252fsmuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"a path upwards":                "GET /ok/../smuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"a path upwards, encoded":       "GET /ok/%2e%2e/smuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"a path upwards, overlong":      "GET /ok/%c0%ae%c0%ae%c0%afsmuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"fields named without end":      "GET /ok/smuggled30a HTTP/1.1\r\nHost: " + name + "\r\nConnection: " + strings.Repeat("te,", 9000) + "\r\n\r\n",
				"a path upwards with a word":    "GET /ok/..;x/smuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"another method's letters":      "GeT /smuggled30a HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"TRACE":                         "TRACE /ok/x HTTP/1.1\r\nHost: " + name + "\r\n\r\n",
				"CONNECT within":                "CONNECT " + name + ":443 HTTP/1.1\r\nHost: " + name + ":443\r\n\r\n" + inner,
				"an upgrade to h2c":             req("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n", inner),
			} {
				out = append(out, net1(what, func() error { return within(in, name, text) }))
			}
			return out
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{
				found("nothing of it went up", len(unwanted(sent, "smuggled30a", "front30a", "h2c")) == 0, "%.900s", sent),
				found("control: the good one did", strings.Contains(sent, "good30a"), "%.900s", sent),
			}
		},
	}
}
