package corpus

import (
	"strconv"

	"cloister/escape"
)

func nw26b() escape.Case {
	return escape.Case{
		ID: "NW-26b", Class: "a field that is set on the way", Attack: "keep a field that the guardian sets from arriving: send one's own, in other spellings, twice, as a trailer, or have Connection take it away",
		Source: "agentcage #214; tenant restrictions of cloud providers", Layers: []string{"edits"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			const name = "rewritten.test"
			const get = "GET /ok/strangers HTTP/1.1\r\nHost: " + name + "\r\n"
			var out []escape.Try
			for _, fields := range []string{
				"", "X-Tenant: other", "x-tenant: other", "X-Tenant: other\r\nX-Tenant: third", "X_Tenant: other", "X-TENANT: other\r\nx_tenant: other",
				"Connection: X-Tenant", "Connection: close, x-tenant", "Connection: X_Tenant, X-Tenant", "X-Tenant: other\r\nConnection: X-Tenant", "X-Tenant:", "Keep-Alive: X-Tenant\r\nConnection: Keep-Alive, X-Tenant",
			} {
				if fields != "" {
					fields += "\r\n"
				}
				out = append(out, net1("with "+strconv.Quote(fields), func() error { return within(in, name, get+fields+"\r\n") }))
			}
			h2 := func(what string, more ...[2]string) escape.Try {
				return net1("HTTP/2: "+what, func() error {
					return stream(in, name, ask(name, append(more, [2]string{":path", "/ok/strangers"})...)...)
				})
			}
			return append(out,
				net1("in a trailer", func() error {
					return within(in, name, "POST /ok/strangers HTTP/1.1\r\nHost: "+name+"\r\nTransfer-Encoding: chunked\r\nTrailer: X-Tenant\r\n\r\n0\r\nX-Tenant: other\r\n\r\n")
				}),
				h2("without it"), h2("its own", [2]string{"x-tenant", "other"}), h2("with an underscore", [2]string{"x_tenant", "other"}),
				h2("twice", [2]string{"x-tenant", "other"}, [2]string{"x-tenant", "third"}))
		},
	}
}
