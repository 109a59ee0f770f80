package corpus

import (
	"path/filepath"

	"cloister/escape"
)

func fs16() escape.Case {
	return escape.Case{
		ID: "FS-16", Class: "agent config", Attack: "write what agents and MCP clients of the host obey, present and absent",
		Source: "CVE-2026-25725, CVE-2025-59536", Layers: []string{"protect"},
		Tries: writes("FS-16", ".claude/settings.json", ".claude/settings.local.json", ".claude/hooks/x", ".claude/commands/x.md", ".mcp.json",
			".codex/config.toml", ".gemini/settings.json", ".cursor/mcp.json", ".cursor/rules/x.mdc", ".opencode/plugin/x.js", "opencode.json", "opencode.jsonc"),
	}
}

// writes tries to make or change files of the project.
func writes(id string, names ...string) func(in escape.Inside) []escape.Try {
	return func(in escape.Inside) []escape.Try {
		var out []escape.Try
		for _, name := range names {
			out = append(out, held("write "+name, func() error { return below(filepath.Join(in.Project, name), id) }))
		}
		return out
	}
}
