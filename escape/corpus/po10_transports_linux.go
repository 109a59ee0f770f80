package corpus

import (
	"cloister/escape"
	"fmt"
	"strings"
)

func po10() escape.Case {
	return escape.Case{
		ID: "PO-10", Class: "MCP transport parity", Attack: "the tool that is denied, by every way: JSON, batches, streams, a WebSocket, the old two ways of SSE, other types and methods, a server over stdio, twice the same key",
		Source: "PO-10", Layers: []string{"mcp", "policy"}, Needs: gate(),
		Host: toolbox(func(r *ruled) []escape.Finding {
			const h, path = "tools.test", "/ok/mcp"
			evil := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"evil","arguments":{}}}`
			out := []escape.Finding{}
			for name, text := range map[string]string{
				"JSON":                    post(h, path, evil, "Content-Type: application/json", "Accept: application/json"),
				"a stream":                post(h, path, evil, "Content-Type: application/json", "Accept: text/event-stream"),
				"a batch":                 post(h, path, "["+evil+"]", "Content-Type: application/json", "Accept: application/json"),
				"a batch with a good one": post(h, path, `[{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{}}},`+evil+"]", "Content-Type: application/json", "Accept: application/json"),
				"as a notification":       post(h, path, strings.Replace(evil, `"id":1,`, "", 1), "Content-Type: application/json", "Accept: application/json"),
				"as text":                 post(h, path, evil, "Content-Type: text/plain"),
				"without a type":          post(h, path, evil),
				"in another charset":      post(h, path, evil, "Content-Type: application/json; charset=utf-7"),
				"in chunks":               strings.Replace(get(h, path, "Content-Type: application/json", "Transfer-Encoding: chunked"), "GET", "POST", 1) + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(evil), evil),
				"by PUT":                  strings.Replace(post(h, path, evil, "Content-Type: application/json"), "POST", "PUT", 1),
				"by PATCH":                strings.Replace(post(h, path, evil, "Content-Type: application/json"), "POST", "PATCH", 1),
				"in the query":            get(h, path+"?method=tools/call&name=evil"),
				"the name twice":          post(h, path, strings.Replace(evil, `"name":"evil"`, `"name":"read","name":"evil"`, 1), "Content-Type: application/json", "Accept: application/json"),
				"the method twice":        post(h, path, strings.Replace(evil, `"method":"tools/call"`, `"method":"ping","method":"tools/call"`, 1), "Content-Type: application/json", "Accept: application/json"),
				"in upper case":           post(h, path, strings.Replace(evil, `"evil"`, `"EVIL"`, 1), "Content-Type: application/json", "Accept: application/json"),
				"escaped":                 post(h, path, strings.Replace(evil, `"evil"`, `"\u0065vil"`, 1), "Content-Type: application/json", "Accept: application/json"),
				"in look-alike letters":   post(h, path, strings.Replace(evil, `"evil"`, `"evi\u217c"`, 1), "Content-Type: application/json", "Accept: application/json"),
				"with a byte order mark":  post(h, path, "\ufeff"+evil, "Content-Type: application/json", "Accept: application/json"),
				"at the old way of SSE":   post(h, "/ok/messages?session=1", evil, "Content-Type: application/json"),
				"at a path beside it":     post(h, path+"/", evil, "Content-Type: application/json", "Accept: application/json"),
				"in a spelling of it":     post(h, "/ok/./%6dcp", evil, "Content-Type: application/json", "Accept: application/json"),
				"by a WebSocket":          get(h, path, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
				"another way to call":     rpc(h, path, "tools/execute", `{"name":"evil"}`),
			} {
				asked, answer := r.calls("tls:"+h, text)
				out = append(out, found(name, !strings.Contains(strings.ToLower(asked), "evi") && !strings.Contains(asked, "tools/execute") && !strings.Contains(answer, "101 Switching"), "%q %.300s", asked, answer))
			}
			init := rpc("local.mcp.internal", "/mcp", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)
			_, denied := r.calls("tcp:local.mcp.internal:80", init, rpc("local.mcp.internal", "/mcp", "tools/call", `{"name":"evil","arguments":{}}`))
			_, allowed := r.calls("tcp:local.mcp.internal:80", init, rpc("local.mcp.internal", "/mcp", "tools/list", `{}`), rpc("local.mcp.internal", "/mcp", "tools/call", `{"name":"read","arguments":{}}`))
			out = append(out,
				found("over stdio", !strings.Contains(denied, "called evil"), "%.900s", denied),
				found("control: over stdio the one that is allowed", strings.Contains(allowed, "called read"), "%.900s", allowed))
			asked, answer := r.calls("tls:"+h, rpc(h, path, "tools/list", "{}"), rpc(h, path, "tools/call", `{"name":"read","arguments":{}}`))
			return append(out, found("control: JSON with the one that is allowed", asked == "read", "%q %.600s", asked, answer))
		}),
	}
}
