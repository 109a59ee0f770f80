package corpus

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cloister/escape"
)

func nw26a() escape.Case {
	return escape.Case{
		ID: "NW-26a", Class: "a second reading", Attack: "fields that servers obey instead of method, path or Host, and fields that a rule asks for but the next hop must drop",
		Source: "CVE-2018-14773 (X-Original-URL), X-HTTP-Method-Override of many interfaces", Layers: []string{"policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			const name = "inspected.test"
			var out []escape.Try
			for _, field := range []string{
				"X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: PUT", "X_HTTP_Method_Override: DELETE",
				"X-Original-URL: /denied26a", "X-Rewrite-URL: /denied26a", "X-Original-URL: https://inspected.test/denied26a?x",
			} {
				key, value, _ := strings.Cut(field, ": ")
				out = append(out,
					net1(field, func() error {
						return within(in, name, "POST /ok/x HTTP/1.1\r\nHost: "+name+"\r\n"+field+"\r\nContent-Length: 0\r\n\r\n")
					}),
					net1("HTTP/2: "+field, func() error {
						return stream(in, name, ask(name, [2]string{":method", "POST"}, [2]string{strings.ToLower(key), value})...)
					}))
			}
			for _, query := range []string{"_method=DELETE", "a=b&_method=delete26a"} {
				out = append(out, net1("query "+query, func() error {
					return within(in, name, "POST /ok/x?"+query+" HTTP/1.1\r\nHost: "+name+"\r\nContent-Length: 0\r\n\r\n")
				}))
			}
			for _, kind := range slices.Sorted(maps.Keys(overriding())) {
				body := overriding()[kind]
				typed, _, _ := strings.Cut(kind, " ")
				out = append(out,
					net1("body "+kind, func() error {
						return within(in, name, strings.Replace(post(name, "/ok/x", body, "Content-Type: "+typed), "auto", strconv.Itoa(len(body)), 1))
					}),
					net1("body in one chunk, "+kind, func() error {
						return within(in, name, "POST /ok/form26a HTTP/1.1\r\nHost: "+name+"\r\nContent-Type: "+typed+"\r\nTransfer-Encoding: chunked\r\n\r\n"+
							strconv.FormatInt(int64(len(body)), 16)+"\r\n"+body+"\r\n0\r\n\r\n")
					}))
			}
			const tenant = "tenant.test"
			mine := "GET /ok/tenant26a HTTP/1.1\r\nHost: " + tenant + "\r\nX-Tenant: mine\r\n"
			return append(out,
				good("a request of the tenant", in, func() error { return within(in, tenant, mine+"\r\n") }),
				good("HTTP/2: a request of the tenant", in, func() error { return stream(in, tenant, ask(tenant, [2]string{"x-tenant", "mine"})...) }),
				net1("of another tenant", func() error {
					return within(in, tenant, "GET /ok/tenant26a HTTP/1.1\r\nHost: "+tenant+"\r\nX-Tenant: other26a\r\n\r\n")
				}),
				net1("of both tenants", func() error { return within(in, tenant, mine+"X-Tenant: other26a\r\n\r\n") }),
				net1("of both tenants in two spellings", func() error { return within(in, tenant, mine+"X_Tenant: other26a\r\n\r\n") }),
				net1("the tenant is dropped on the way", func() error { return within(in, tenant, mine+"X-Dropped: 26a\r\nConnection: X-Tenant\r\n\r\n") }),
				net1("HTTP/2: of both tenants in two spellings", func() error {
					return stream(in, tenant, ask(tenant, [2]string{"x-tenant", "mine"}, [2]string{"x_tenant", "other26a"})...)
				}))
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{
				found("none of it went up", len(unwanted(sent, "denied26a", "other26a", "DELETE", "delete26a", "X-Dropped")) == 0, "%q in %.1500s", unwanted(sent, "denied26a", "other26a", "DELETE", "delete26a", "X-Dropped"), sent),
				found("control: the good ones did", strings.Contains(sent, "tenant26a"), "%.900s", sent),
			}
		},
	}
}

// overriding are bodies in which frameworks look for another method, by their types.
func overriding() map[string]string {
	const form, multi = "application/x-www-form-urlencoded", "multipart/form-data;boundary=b"
	return map[string]string{
		form:                       "_method=DELETE",
		form + " behind much":      "a=" + strings.Repeat("x", 100<<10) + "&%5Fmethod=DELETE",
		form + " in PHP's way":     "+.method=DELETE&_METHOD=PUT",
		multi:                      "--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n",
		multi + " behind a file":   "--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n" + strings.Repeat("x\n", 50<<10) + "\r\n--b\r\ncontent-disposition: form-data;\r\n name*=utf-8''_method\r\n\r\nDELETE\r\n--b--\r\n",
		"application/json":         `{"a":{},"_method":"DELETE"}`,
		"application/json escaped": `{"\u005fmethod":"\u0044ELETE"}`,
		"text/plain":               `{"_method":"DELETE"}`,
	}
}
