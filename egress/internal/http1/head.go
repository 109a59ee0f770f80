package http1

import (
	"slices"
	"strconv"

	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// requestHead writes the request anew, from what was understood of it. It is valid
// until the answer's head is written.
func (x *exchange) requestHead() []byte {
	if x.Stream.Scratch == nil {
		x.Stream.Scratch = make([]byte, 0, 1024)
	}
	b := append(x.Stream.Scratch[:0], x.req.Method...)
	b = append(append(append(b, ' '), x.target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, verdict.HostField(x.To, x.Stream.Server.DefaultPort())...), "\r\n"...)
	hop := x.req.Header.Hop()
	for _, f := range x.req.Header {
		switch {
		case hop.Has(f.Name), wire.Is(f.Name, "host"), wire.Is(f.Name, "content-length"),
			wire.Is(f.Name, "transfer-encoding"), (x.out != nil || x.continued) && wire.Is(f.Name, "expect"):
		default:
			b = f.Append(b)
		}
	}
	_, counted := x.req.Header.Get("Content-Length")
	switch {
	case x.out != nil && x.outLength >= 0:
		b = append(b, "Content-Length: "+strconv.FormatInt(x.outLength, 10)+"\r\n"...)
	case x.out != nil || x.req.Body == wire.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case counted > 0:
		b = append(b, "Content-Length: "+strconv.FormatInt(x.req.Length, 10)+"\r\n"...)
	}
	switch {
	case x.upgrade != "":
		b = append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n"...)
	case slices.Contains(x.req.Header.Tokens("TE"), "trailers"):
		b = append(b, "TE: trailers\r\nConnection: TE\r\n"...)
	}
	return append(b, "\r\n"...)
}

func wantsClose(h wire.Header) bool {
	return slices.Contains(append(h.Tokens("Connection"), h.Tokens("Proxy-Connection")...), "close")
}
