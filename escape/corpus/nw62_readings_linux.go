package corpus

import (
	"strings"

	"cloister/escape"
)

func nw62() escape.Case {
	return escape.Case{
		ID: "NW-62", Class: "second readings", Attack: "the denied tool by GET and DELETE with a body, by overrides of method and path in fields and query, at paths below and beside the declared one, in other charsets and types",
		Source: "issue 16, second audit", Layers: []string{"mcp"}, Needs: gate(),
		Host: toolbox(func(r *ruled) []escape.Finding {
			const h, path = "tools.test", "/ok/mcp"
			evil := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"evil","arguments":{}}}`
			typed := "Content-Type: application/json"
			by := func(method, text string) string { return strings.Replace(text, "POST", method, 1) }
			var wide strings.Builder
			for _, c := range evil {
				wide.WriteString(string(c) + "\x00")
			}
			out := []escape.Finding{}
			for name, text := range map[string]string{
				"GET with an override":           by("GET", post(h, path, evil, typed, "X-HTTP-Method-Override: POST")),
				"DELETE with a body":             by("DELETE", post(h, path, evil, typed)),
				"DELETE with a body, beside":     by("DELETE", post(h, "/ok/elsewhere", evil, typed)),
				"GET with a body, beside":        by("GET", post(h, "/ok/elsewhere", evil)),
				"_method in the query":           by("GET", post(h, path+"?_method=POST", evil, typed)),
				"an override, beside":            by("PUT", post(h, "/ok/elsewhere", evil, "Content-Type: text/plain", "X-HTTP-Method: POST")),
				"X-Original-URL":                 post(h, "/ok/elsewhere", evil, "Content-Type: text/plain", "X-Original-URL: "+path),
				"X-Rewrite-URL":                  post(h, "/ok/elsewhere", evil, "Content-Type: text/plain", "X-Rewrite-URL: "+path),
				"X-Forwarded-Prefix":             post(h, "/mcp", evil, "Content-Type: text/plain", "X-Forwarded-Prefix: /ok"),
				"below its path":                 post(h, path+"/x", evil, "Content-Type: text/plain"),
				"with a parameter":               post(h, path+";v=1", evil, typed),
				"in upper case":                  post(h, "/OK/MCP", evil, "Content-Type: text/plain"),
				"behind another path":            post(h, "/ok/v1/ok/mcp", evil, "Content-Type: application/octet-stream"),
				"UTF-16 without a word":          post(h, path, wide.String(), typed),
				"UTF-16 without a word, beside":  post(h, "/ok/elsewhere", wide.String(), typed),
				"UTF-16 with its mark":           post(h, "/ok/elsewhere", "\xff\xfe"+wide.String(), "Content-Type: text/plain"),
				"a charset that is said, beside": post(h, "/ok/elsewhere", evil, "Content-Type: text/plain; charset=utf-7"),
				"as a form":                      post(h, "/ok/elsewhere", evil, "Content-Type: application/x-www-form-urlencoded"),
				"two types":                      post(h, path, evil, typed, "Content-Type: text/plain"),
				"requests in JSON, beside":       post(h, "/ok/%24batch", `{"requests":[{"id":"1","method":"POST","url":"/ok/mcp","body":`+evil+`}]}`, typed),
				"requests in parts, beside":      post(h, "/ok/batch", "--b\r\nContent-Type: application/http\r\n\r\nPOST /ok/mcp HTTP/1.1\r\n\r\n"+evil+"\r\n--b--\r\n", "Content-Type: multipart/mixed; boundary=b"),
				"fields in the query, beside":    post(h, "/ok/elsewhere?%24httpHeaders=X-Original-URL%3A%2Fok%2Fmcp", evil, "Content-Type: text/plain"),
				"a batch, beside, as text":       post(h, "/ok/elsewhere", "["+evil+"]", "Content-Type: text/plain"),
			} {
				asked, answer := r.calls("tls:"+h, text)
				out = append(out, found(name, !strings.Contains(asked, "evil") && !strings.Contains(asked, "\x00"), "%q %.300s", asked, answer))
			}
			asked, answer := r.calls("tls:"+h, rpc(h, path, "tools/call", `{"name":"read","arguments":{}}`))
			return append(out, found("control: the tool that is allowed", asked == "read", "%q %.600s", asked, answer))
		}),
	}
}
