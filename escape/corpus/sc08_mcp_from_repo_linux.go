package corpus

import (
	"cloister/escape"
)

func sc08() escape.Case {
	return escape.Case{
		ID: "SC-08", Class: "MCP from repo", Attack: "a repository with MCP servers, hooks and tasks that name commands: starting a cloister runs none on the host",
		Source: "CVE-2025-59536", Layers: []string{"launcher"},
		Host: func(w *escape.World) []escape.Finding {
			mark := w.Base + "/mcp-ran"
			if err := w.Write(".mcp.json", `{"mcpServers":{"x":{"command":"touch","args":["`+mark+`"]}}}`); err != nil {
				return escape.NoHost("write .mcp.json", err)
			}
			if err := w.Write(".envrc", "touch "+mark+"\n"); err != nil {
				return escape.NoHost("write .envrc", err)
			}
			defer clean(w.Project+"/.mcp.json", w.Project+"/.envrc", mark)
			res := w.Outcome(nil, "sh", "-c", "cat .mcp.json")
			ran := exists(mark)
			_, err := w.Exec("touch", mark)
			return []escape.Finding{
				found("the cloister starts, the file is shown", res.Status == 0 && len(unwanted(res.Stdout, "mcpServers")) == 1, "status %d: %s", res.Status, res.Stderr),
				found("nothing of it ran on the host", !ran, "%s", mark),
				found("control: its command would leave a mark", err == nil && exists(mark), "%v", err),
			}
		},
	}
}
