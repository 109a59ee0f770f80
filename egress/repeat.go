package egress

import (
	"strings"

	"cloister/egress/internal/wire"
)

// repeatable reports whether a request may be sent again where a connection that was
// lent ends without a word: it has no body, and asks for nothing but an answer
// (RFC 9110 9.2.2).
func (x *exchange) repeatable() bool {
	return repeatable(x.req.Method) && x.req.Body == wire.NoBody && x.out == nil && x.upgrade == ""
}

func repeatable(method string) bool {
	return method == "GET" || method == "HEAD" || method == "OPTIONS"
}

// bindsConnection reports whether a request logs its connection in, and not itself.
func bindsConnection(h wire.Header) bool {
	v, _ := h.Get("Authorization")
	scheme, _, _ := strings.Cut(strings.ToLower(v), " ")
	return scheme == "ntlm" || scheme == "negotiate"
}
