package corpus

import (
	"cloister/escape"
	"fmt"
	"strings"
)

func po11() escape.Case {
	return escape.Case{
		ID: "PO-11", Class: "MCP resources", Attack: "resources of other schemes and places, prompts, completions and log levels that no list names; a server asks for the model, the person and the folders of the agent",
		Source: "CVE-2025-53109; CVE-2025-53110", Layers: []string{"mcp", "policy"}, Needs: gate(),
		Host: toolbox(func(r *ruled) []escape.Finding {
			const h, path = "tools.test", "/ok/mcp"
			var out []escape.Finding
			for _, uri := range []string{"file:///etc/passwd", "file:///work/../etc/passwd", "../../etc/passwd", "http://169.254.169.254/latest", "https://evil.test/", "DOCS://x", "docs:/x", " docs://x", "xdocs://x", "data:text/plain,x", ""} {
				asked, answer := r.calls("tls:"+h, rpc(h, path, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)))
				out = append(out, found("read "+uri, asked == "" && !strings.Contains(answer, "contents: "), "%q %.300s", asked, answer))
			}
			for _, one := range [][2]string{{"resources/subscribe", `{"uri":"file:///etc/passwd"}`}, {"prompts/get", `{"name":"evil"}`}, {"completion/complete", `{"ref":{"type":"ref/resource","uri":"file:///{x}"},"argument":{"name":"x","value":"e"}}`}, {"sampling/createMessage", `{"messages":[]}`}, {"tools/unknown", `{}`}} {
				asked, answer := r.calls("tls:"+h, rpc(h, path, one[0], one[1]))
				out = append(out, found(one[0], asked == "", "%q %.300s", asked, answer))
			}
			for _, what := range []string{"sampling/createMessage", "elicitation/create", "roots/list"} {
				list := rpc(h, path, "tools/list", "{}")
				_, answer := r.calls("tls:"+h, list, rpc(h, path, "tools/call", `{"name":"ask_`+what+`","arguments":{}}`))
				out = append(out, found("a server asks for "+what, !strings.Contains(answer, `"method":"`+what) && strings.Contains(answer, "asked"), "%.700s", answer[strings.LastIndex(answer, "HTTP/1.1")+1:]))
			}
			asked, answer := r.calls("tls:"+h, rpc(h, path, "resources/read", `{"uri":"docs://guide"}`))
			return append(out, found("control: one that a list names", asked == "docs://guide" && strings.Contains(answer, "contents: docs://guide"), "%q %.600s", asked, answer))
		}),
	}
}
