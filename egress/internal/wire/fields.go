package wire

import (
	"maps"
	"slices"
	"strings"
)

// mostNamed bounds the fields that Connection names: each is looked for among all the
// others, so that 64 KiB of both would cost a fifth of a second.
const mostNamed = 64

// checkNamed refuses a head whose Connection names more than anyone has to say.
func checkNamed(h Header) error {
	n := 0
	for _, f := range h {
		if strings.EqualFold(f.Name, "Connection") {
			n += 1 + strings.Count(f.Value, ",")
		}
	}
	if n > mostNamed {
		return bad("Connection names more than %d fields", mostNamed)
	}
	return nil
}

// Tidy holds fields that came in frames to what ParseField asks of lines: what HTTP/1.1
// refuses or cuts off a value must not get by rules in HTTP/2. size is what they come to.
func Tidy(fields map[string][]string) (size int64, err error) {
	for name, values := range fields {
		if err := checkAlias(name); err != nil {
			return 0, err
		}
		for i, v := range values {
			values[i] = strings.Trim(v, " \t")
			size += int64(len(name) + len(v))
		}
	}
	return size, nil
}

// TidyTrailers takes away those that may not stand behind a body, and tells what is left.
func TidyTrailers(fields map[string][]string) (size int64) {
	maps.DeleteFunc(fields, func(name string, _ []string) bool { return !TrailerAllowed(name) })
	size, _ = Tidy(fields) // what Tidy refuses is gone
	return size
}

// Hop are the fields that belong to one connection only (RFC 9110 7.6.1), besides
// those that always do.
type Hop []string

// Hop are those that Connection names.
func (h Header) Hop() Hop { return h.Tokens("Connection") }

// Has reports whether a field is one of them.
func (h Hop) Has(name string) bool {
	switch len(name) {
	case 2:
		if Is(name, "te") {
			return true
		}
	case 7:
		if Is(name, "upgrade") {
			return true
		}
	case 10:
		if Is(name, "connection") || Is(name, "keep-alive") {
			return true
		}
	case 16, 18, 19, 25:
		if Is(name, "proxy-connection") || Is(name, "proxy-authenticate") || Is(name, "proxy-authorization") ||
			Is(name, "proxy-authentication-info") {
			return true
		}
	}
	// A length is of the message, and an answer that named it away would have no end.
	return !Is(name, "content-length") && slices.ContainsFunc(h, func(named string) bool { return Is(name, named) })
}

// Is compares the name of a field with one in lower case.
func Is(name, lower string) bool { return len(name) == len(lower) && strings.EqualFold(name, lower) }
