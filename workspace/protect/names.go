package protect

import (
	"strings"
	"sync"

	"cloister/agent"
	"cloister/workspace/stubs"
)

// held is a name that programs of the host run or obey by themselves.
type held struct {
	path   string
	absent stubs.Kind
}

// autoRun are the names that programs of the host run or obey by themselves: those of the
// agents that Cloister knows, which are written in package agent, and others. They are
// read-only wherever they exist at the start; what appears later is reported at the end.
var autoRun = sync.OnceValue(func() []held {
	list := make([]held, 0, len(ofOthers)+20)
	for _, o := range agent.AllObeyed() {
		list = append(list, held{o.Path, kindOf(o.Absent)})
	}
	return append(list, ofOthers...)
})

// kindOf is by what a path is held that an agent looks for.
func kindOf(a agent.Absent) stubs.Kind {
	switch a {
	case agent.Folder:
		return stubs.Folder
	case agent.Ignoring:
		return stubs.Ignoring
	case agent.Blank:
		return stubs.Blank
	case agent.Unheld:
	}
	return stubs.Leave
}

// ofOthers are the names of editors, agents that Cloister does not start, MCP clients,
// shells, environment and package managers, hook runners, build containers and CI.
//
// absent tells how the name is held at the top of a project where it is absent:
// programs that look there act without another word from a person. Each stub
// costs a start a tenth of a millisecond and the person a line of ls, so names
// that something else already guards have none: shells read their files from a
// home, mise and asdf ask for trust, hook runners need a hook in .git/hooks, and
// CI reads what was pushed.
var ofOthers = []held{
	{".vscode", stubs.Folder}, {".idea", stubs.Folder},
	{".devcontainer", stubs.Folder}, {".devcontainer.json", stubs.Leave},
	{".husky", stubs.Folder}, {".pre-commit-config.yaml", stubs.Leave},
	{".github/workflows", stubs.Folder},
	{".envrc", stubs.Blank}, {".direnv", stubs.Leave}, {".devenv", stubs.Leave}, {".mise.toml", stubs.Leave},
	{".npmrc", stubs.Blank}, {".yarnrc.yml", stubs.Blank}, {".cargo", stubs.Folder},
	{".agents", stubs.Leave}, {".zed", stubs.Leave}, {".windsurf", stubs.Leave},
	{".kiro", stubs.Leave}, {".roo", stubs.Leave}, {".roomodes", stubs.Leave}, {".cline", stubs.Leave},
	{".clinerules", stubs.Leave}, {".continue", stubs.Leave},
	{".qwen", stubs.Leave}, {".augment", stubs.Leave}, {".junie", stubs.Leave}, {".trae", stubs.Leave},
	{".crush", stubs.Leave}, {".crush.json", stubs.Leave}, {"crush.json", stubs.Leave},
	{".factory", stubs.Leave}, {".amazonq", stubs.Leave},
	{".helix", stubs.Leave}, {".fleet", stubs.Leave}, {".vim", stubs.Leave}, {".exrc", stubs.Leave},
	{".vimrc", stubs.Leave}, {".nvimrc", stubs.Leave}, {".nvim.lua", stubs.Leave}, {".lvimrc", stubs.Leave},
	{".dir-locals.el", stubs.Leave},
	{"lefthook.yml", stubs.Leave}, {".lefthook.yml", stubs.Leave}, {".gitlab-ci.yml", stubs.Leave},
	{".circleci", stubs.Leave},
	{"lefthook.yaml", stubs.Leave}, {"lefthook.toml", stubs.Leave}, {"lefthook-local.yml", stubs.Leave},
	{".simple-git-hooks.json", stubs.Leave}, {".lintstagedrc", stubs.Leave},
	{".lintstagedrc.json", stubs.Leave}, {".overcommit.yml", stubs.Leave},
	{".forgejo", stubs.Leave}, {".gitea", stubs.Leave}, {".woodpecker.yml", stubs.Leave},
	{".woodpecker", stubs.Leave}, {".travis.yml", stubs.Leave}, {".drone.yml", stubs.Leave},
	{".buildkite", stubs.Leave},
	{"azure-pipelines.yml", stubs.Leave}, {"bitbucket-pipelines.yml", stubs.Leave},
	{"Jenkinsfile", stubs.Leave}, {".cirrus.yml", stubs.Leave},
	{"mise.toml", stubs.Leave}, {".mise", stubs.Leave}, {"mise.local.toml", stubs.Leave},
	{".mise.local.toml", stubs.Leave}, {".tool-versions", stubs.Leave}, {".yarnrc", stubs.Leave},
	{".pnpmfile.cjs", stubs.Leave}, {".bundle", stubs.Leave}, {".pdbrc", stubs.Leave}, {".irbrc", stubs.Leave},
	{".pryrc", stubs.Leave}, {".gdbinit", stubs.Leave}, {".lldbinit", stubs.Leave},
	{".bashrc", stubs.Leave}, {".bash_profile", stubs.Leave}, {".profile", stubs.Leave},
	{".zshrc", stubs.Leave}, {".zprofile", stubs.Leave}, {".zshenv", stubs.Leave},
	{".bash_aliases", stubs.Leave}, {".bash_login", stubs.Leave}, {".bash_logout", stubs.Leave},
	{".zlogin", stubs.Leave}, {".zlogout", stubs.Leave}, {".kshrc", stubs.Leave}, {".cshrc", stubs.Leave},
	{".tcshrc", stubs.Leave},
	{".autoenv", stubs.Leave}, {".autoenv.zsh", stubs.Leave}, {".autoenv_leave.zsh", stubs.Leave},
	{".shadowenv.d", stubs.Leave},
	{".Rprofile", stubs.Leave}, {".Renviron", stubs.Leave}, {".ghci", stubs.Leave},
	{".ocamlinit", stubs.Leave}, {".iex.exs", stubs.Leave}, {".octaverc", stubs.Leave},
	{".perldb", stubs.Leave}, {".gdbearlyinit", stubs.Leave},
	{".dir-locals-2.el", stubs.Leave}, {".ycm_extra_conf.py", stubs.Leave}, {".neoconf.json", stubs.Leave},
	{".nova", stubs.Leave}, {".vs", stubs.Leave}, {".theia", stubs.Leave}, {".lapce", stubs.Leave},
	{".kateproject", stubs.Leave}, {".externalToolBuilders", stubs.Leave},
	{".kilocode", stubs.Leave}, {".kilocodemodes", stubs.Leave}, {".openhands", stubs.Leave},
	{".rovodev", stubs.Leave}, {".agent", stubs.Leave}, {".vibe", stubs.Leave}, {".qoder", stubs.Leave},
	{".codebuddy", stubs.Leave}, {".serena", stubs.Leave},
	{".gitpod.yml", stubs.Leave}, {".gitpod", stubs.Leave}, {".ona", stubs.Leave}, {".idx", stubs.Leave},
	{".codesandbox", stubs.Leave}, {".replit", stubs.Leave},
	{".hg/hgrc", stubs.Leave}, {".sl/config", stubs.Leave}, {".jj/repo/config.toml", stubs.Leave},
	{"_darcs/prefs/defaults", stubs.Leave},
	{".gitconfig", stubs.Leave}, {".ripgreprc", stubs.Leave}, {".cloister.yaml", stubs.Leave},
	// An absent .gitmodules cannot be covered: git reads the cover and fails.
	{".gitmodules", stubs.Leave},
}

// Skipped are folders that hold no settings of the host's programs and too many
// files to look at.
var Skipped = []string{"node_modules", "vendor", "target", ".venv", "venv", "__pycache__", "dist", "build", ".tox",
	".next", ".gradle"}

// byName are the names of autoRun, in lower case: a look of one name, since a walk asks for
// each file of a project.
var byName = sync.OnceValue(func() map[string]bool {
	list := autoRun()
	names := make(map[string]bool, len(list))
	for _, a := range list {
		names[strings.ToLower(a.path)] = true
	}
	return names
})

// Name reports whether a name is protected wherever it exists. On a file
// system that folds case (ext4's, FAT, a Mac's) another spelling is the same file.
func Name(name string) bool {
	if len(name) > len(workspaceEnd) && strings.EqualFold(name[len(name)-len(workspaceEnd):], workspaceEnd) {
		return true
	}
	var lower [maxName]byte
	if len(name) > len(lower) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return byName()[string(lower[:len(name)])]
}

// maxName is no shorter than the longest of autoRun, as a test holds.
const maxName = 32

const workspaceEnd = ".code-workspace"
