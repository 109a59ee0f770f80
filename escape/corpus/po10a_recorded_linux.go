package corpus

import (
	"encoding/json"
	"strings"

	"cloister/escape"
)

func po10a() escape.Case {
	return escape.Case{
		ID: "PO-10a", Class: "MCP calls are recorded", Attack: "the denied tool by each way round the route: every refusal and every " +
			"allowed call is in the record, with the tool's name and the digest of its frame where a frame was read",
		Source: "issue 16, second audit", Layers: []string{"mcp", "audit"}, Needs: gate(),
		Host: toolbox(func(r *ruled) []escape.Finding {
			const h, path = "tools.test", "/ok/mcp"
			evil := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"evil","arguments":{}}}`
			typed := "Content-Type: application/json"
			by := func(method, text string) string { return strings.Replace(text, "POST", method, 1) }
			var out []escape.Finding
			for _, c := range []struct {
				name, text string
				call       bool // the frame was read, so the record names the tool
			}{
				{"as it should be called", post(h, path, evil, typed, "Accept: application/json"), true},
				{"GET with an override", by("GET", post(h, path, evil, typed, "X-HTTP-Method-Override: POST")), false},
				{"DELETE with a body", by("DELETE", post(h, path, evil, typed)), false},
				{"_method in the query", by("GET", post(h, path+"?_method=POST", evil, typed)), false},
				{"X-Original-URL", post(h, "/ok/elsewhere", evil, typed, "X-Original-URL: "+path), false},
				{"a path beside", post(h, path+";v=1", evil, typed), false},
				{"another charset", post(h, path, evil, typed+"; charset=utf-16le"), false},
				{"beside, by DELETE", by("DELETE", post(h, "/ok/elsewhere", evil, typed)), false},
			} {
				before := len(r.records())
				asked, answer := r.calls("tls:"+h, c.text)
				var refusals, calls []string
				for _, e := range r.records()[before:] {
					if e.Verdict != "deny" {
						continue
					}
					refusals = append(refusals, e.Kind+" "+e.Method+" "+e.Path+" "+e.Resource)
					if e.Kind == "mcp.call" && strings.Contains(e.Resource, "evil") && strings.HasPrefix(e.Digest, "sha256:") {
						calls = append(calls, e.Resource)
					}
				}
				held := asked == "" && len(refusals) > 0 && (len(calls) == 1 || !c.call)
				out = append(out, found(c.name+": it is refused, and that is recorded", held, "%q refused: %q %.300s", asked, refusals, answer))
			}
			before := len(r.records())
			asked, answer := r.calls("tls:"+h, rpc(h, path, "tools/call", `{"name":"read","arguments":{"path":"a"}}`))
			var allowed []string
			for _, e := range r.records()[before:] {
				if e.Kind == "mcp.call" && e.Verdict == "allow" && strings.Contains(e.Resource, "read") && strings.HasPrefix(e.Digest, "sha256:") {
					allowed = append(allowed, e.Resource)
				}
			}
			return append(out, found("control: the allowed tool runs, with one record of its call", asked == "read" && len(allowed) == 1,
				"%q %q %.300s", asked, allowed, answer))
		}),
	}
}

// A record is what the case reads of a line of the audit.
type record struct {
	Kind, Action, Verdict, Resource, Method, Path, Reason, Digest string
}

// records are all that this guardian wrote, oldest first.
func (r *ruled) records() []record {
	var out []record
	for line := range strings.Lines(r.cloister("audit", "tail", "--json", "-n", "0").Stdout) {
		var e record
		if json.Unmarshal([]byte(line), &e) == nil && e.Kind != "" {
			out = append(out, e)
		}
	}
	return out
}
