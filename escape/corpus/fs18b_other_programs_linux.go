package corpus

import (
	"strings"

	"cloister/escape"
)

// obeyed are files of programs that are many: agents, editors, debuggers, hook
// runners, CI. They are read-only where they are, and listed where they appear.
func obeyed() []string {
	return []string{
		".kiro/settings/mcp.json", ".roo/mcp.json", ".continue/config.yaml", ".aider.conf.yml", ".junie/mcp/mcp.json", ".crush.json", ".windsurf/mcp_config.json", ".zed/tasks.json",
		".helix/languages.toml", ".vim/coc-settings.json", ".exrc", ".nvim.lua", ".dir-locals.el", ".gdbinit", ".pdbrc", "lefthook.yml", "lefthook.yaml", ".pre-commit-config.yaml",
		".lintstagedrc.json", ".mise.toml", ".mise/config.toml", ".tool-versions", ".direnv/flake-profile.rc", ".gitlab-ci.yml", ".circleci/config.yml", ".forgejo/workflows/x.yml", "Jenkinsfile", ".gitmodules", ".yarnrc", ".pnpmfile.cjs",
		".Rprofile", ".ghci", ".ocamlinit", ".iex.exs", ".octaverc", ".dir-locals-2.el", ".autoenv.zsh", ".kilocode/mcp.json", ".openhands/setup.sh", ".vs/tasks.vs.json", ".gitpod.yml", ".idx/dev.nix",
		".hg/hgrc", ".sl/config", ".jj/repo/config.toml", "_darcs/prefs/defaults",
		"x.code-workspace", "deep/er/.claude/settings.json", "deep/.vscode/tasks.json", "deep/.npmrc", "deep/.github/workflows/x.yml",
	}
}

func fs18b() escape.Case {
	return escape.Case{
		ID: "FS-18b", Class: "files of other programs, present", Attack: "change what other agents, editors, debuggers, hook runners and CI obey, at the top and below it",
		Source: "HARDENING 5.1; CVE-2025-59944 (a name in other letters)", Layers: []string{"protect"},
		Prepare: func(w *escape.World) error {
			for _, name := range obeyed() {
				if err := w.Write(name, "# the person's\n"); err != nil {
					return err
				}
			}
			return nil
		},
		Tries: writes("FS-18b", obeyed()...),
		Host: func(w *escape.World) []escape.Finding {
			var tops []string
			for _, name := range obeyed() {
				top, _, _ := strings.Cut(name, "/")
				tops = append(tops, w.Project+"/"+top)
			}
			clean(tops...)
			return []escape.Finding{found("its files are gone again", !exists(w.Project+"/.kiro"), "they are there")}
		},
	}
}
