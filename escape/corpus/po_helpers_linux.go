package corpus

import (
	"cloister/escape"
	"strings"
)

// toolbox is the Host of a case with an MCP server that is judged: read may be
// called, write asks, evil may not.
func toolbox(look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return with(func(w *escape.World) string {
		server := "allow_tools: [read, ask*], ask_tools: [write], deny_tools: [evil], prompts: [p], resources: [\"docs://*\"]"
		return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n  hosts: {tools.test: \"127.0.0.1:" + itoa(w.Secure) + "\"}\n" +
			"mcp:\n  servers:\n    - {name: tools, url: \"https://tools.test/ok/mcp\", " + server + "}\n    - {name: local, command: [\"" + w.Self + "\", mcp], " + server + "}\n"
	}, together(look))
}

// rpc is one message to an MCP server.
func rpc(host, path, method, params string, head ...string) string {
	head = append([]string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}, head...)
	return post(host, path, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, head...)
}

// calls sends requests and gives what the server was asked, and what came back.
func (r *ruled) calls(to string, texts ...string) (asked, answer string) {
	before := len(r.w.Upstream())
	res := r.inside(append([]string{"say", to}, texts...)...)
	var got []string
	for _, line := range r.w.Upstream()[before:] {
		for _, kind := range []string{"called: ", "read: ", "method: "} {
			if rest, ok := strings.CutPrefix(line, kind); ok {
				got = append(got, rest)
			}
		}
	}
	return strings.Join(got, " "), res.Stdout + res.Stderr
}
