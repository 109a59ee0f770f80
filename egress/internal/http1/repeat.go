package http1

import (
	"strings"

	"cloister/egress/internal/request"
	"cloister/egress/internal/wire"
)

// repeatable reports whether a request may be sent again where a connection that was
// lent ends without a word: it has no body, and asks for nothing but an answer
// (RFC 9110 9.2.2).
func (x *exchange) repeatable() bool {
	return request.Repeatable(x.req.Method) && x.req.Body == wire.NoBody && x.out == nil && x.upgrade == ""
}

// bindsConnection reports whether a request logs its connection in, and not itself.
func bindsConnection(h wire.Header) bool {
	v, _ := h.Get("Authorization")
	scheme, _, _ := strings.Cut(strings.ToLower(v), " ")
	return scheme == "ntlm" || scheme == "negotiate"
}
