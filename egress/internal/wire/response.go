package wire

import (
	"strconv"
	"strings"
)

// A Response is a response head.
type Response struct {
	Minor  int
	Status int
	Reason string
	Header Header
	Body   Framing
	Length int64
}

// ParseResponse parses a complete response head to a request of that method.
func ParseResponse(head []byte, method string) (*Response, error) {
	first, header, err := split(head)
	if err != nil {
		return nil, err
	}
	r := &Response{Header: header}
	version, rest, _ := strings.Cut(first, " ")
	if r.Minor, err = parseVersion(version); err != nil {
		return nil, err
	}
	code, reason, _ := strings.Cut(rest, " ")
	if len(code) != 3 || strings.Trim(code, "0123456789") != "" || code[0] < '1' || code[0] > '5' {
		return nil, bad("a status that is no number from 100 to 599")
	}
	r.Status, _ = strconv.Atoi(code)
	r.Reason = reason
	chunked, length, err := framing(header, r.Minor)
	if err != nil {
		return nil, err
	}
	switch {
	case method == "HEAD" || r.Status < 200 || r.Status == 204 || r.Status == 304:
		r.Body = NoBody // RFC 9112 6.3, whatever the fields say
	case chunked:
		r.Body = Chunked
	case length >= 0:
		r.Body, r.Length = Length, length
	default:
		r.Body = UntilClose
	}
	return r, nil
}
