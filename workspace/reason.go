package workspace

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cloister/agent"
	"cloister/workspace/protect"
)

// obeyed are the programs that run or obey files, by a part of the file's path.
var obeyed = sync.OnceValue(func() []obeys {
	return []obeys{
		{"git runs it", []string{"hooks"}},
		{"git obeys it", []string{
			".git", ".gitmodules", ".gitconfig", "config.worktree", "commondir", "gitdir", "alternates",
		}},
		{"direnv or a program like it runs it when a shell enters the folder", []string{
			".envrc", ".direnv", ".devenv", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh", ".shadowenv.d",
			".mise.toml", "mise.toml", ".mise",
		}},
		{"an editor obeys it", []string{
			".vscode", ".idea", ".zed", ".helix", ".fleet", ".vim", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua",
			".dir-locals.el", ".vs", ".theia", ".lapce", ".nova",
		}},
		{"a coding agent obeys it", append([]string{".windsurf", ".kiro", ".roo", ".cline", ".continue", ".agents"},
			agentsObey()...)},
		{"a hook runner runs it", []string{
			".husky", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", "lefthook.yaml",
			"lefthook.toml",
		}},
		{"continuous integration runs it", []string{
			"workflows", ".gitlab-ci.yml", ".circleci", "jenkinsfile", ".travis.yml", ".drone.yml", ".buildkite",
		}},
		{"a package manager obeys it", []string{
			".npmrc", ".yarnrc.yml", ".yarnrc", ".cargo", ".pnpmfile.cjs", ".bundle",
		}},
		{"an editor builds and runs containers by it", []string{".devcontainer", ".devcontainer.json"}},
		{"a shell runs it", []string{
			".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile", ".zshenv", ".bash_aliases",
			".bash_login",
		}},
	}
})

type obeys struct {
	why   string
	parts []string
}

// agentsObey are the parts of paths that name what the known agents obey.
func agentsObey() []string {
	var parts []string
	for _, o := range agent.AllObeyed() {
		parts = append(parts, strings.ToLower(o.Path))
	}
	return parts
}

// Reason says which programs of the host run or obey a path.
func Reason(path string) string {
	parts := strings.Split(strings.ToLower(path), string(filepath.Separator))
	if parts[len(parts)-1] == "index" && slices.Contains(parts, ".git") {
		return "git shows by it what changed, and it could not be read again (is there an index.lock?)"
	}
	for _, o := range obeyed() {
		if slices.ContainsFunc(o.parts, func(p string) bool { return slices.Contains(parts, p) }) {
			return o.why
		}
	}
	return "programs of this host run or obey it"
}

// FoundAtStart reports whether a start looks where a path lies: an auto-run file that was
// there is protected.
func FoundAtStart(rel string) bool {
	parts := strings.Split(filepath.Dir(rel), string(filepath.Separator))
	return filepath.IsLocal(rel) && !slices.Contains(parts, ".git") &&
		!slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(protect.Skipped, p) })
}

// unheld is a Holder of nothing.
type unheld struct{}

func (unheld) Held(string) bool { return false }

// most of one folder are shown one by one, and so many of all.
const (
	mostOfFolder = 200
	mostShown    = 2000
)

// Grouped is a list of paths with what is many in one folder counted: what programs
// run by its name comes first, and each folder has its own bound, so that no number
// of names in one hides a name in another.
func Grouped(paths []string) (shown []string, counted []Many) {
	folders := map[string][]string{}
	var order []string
	for _, p := range paths {
		dir := filepath.Dir(p)
		if folders[dir] == nil {
			order = append(order, dir)
		}
		folders[dir] = append(folders[dir], p)
	}
	// Small folders first: one with a single file is not behind a hundred with many.
	slices.SortStableFunc(order, func(a, b string) int { return len(folders[a]) - len(folders[b]) })
	for _, dir := range order {
		list := folders[dir]
		slices.SortStableFunc(list, func(a, b string) int { return rank(a) - rank(b) })
		n := min(len(list), mostOfFolder, max(0, mostShown-len(shown)))
		shown = append(shown, list[:n]...)
		if n < len(list) {
			counted = append(counted, Many{dir, len(list) - n})
		}
	}
	slices.Sort(shown)
	return shown, folded(counted)
}

// Many are further paths of one folder.
type Many struct {
	Folder string
	Count  int
}

// folded counts folders by the one above them while there are too many.
func folded(list []Many) []Many {
	for len(list) > mostOfFolder {
		sums := map[string]int{}
		for _, m := range list {
			sums[filepath.Dir(m.Folder)] += m.Count
		}
		list = list[:0]
		for dir, n := range sums {
			list = append(list, Many{dir, n})
		}
	}
	slices.SortFunc(list, func(a, b Many) int { return strings.Compare(a.Folder, b.Folder) })
	return list
}

// rank puts first what programs run by its very name.
func rank(path string) int {
	name := filepath.Base(path)
	if protect.Name(name) || slices.Contains(gitHooks, name) || name == "config" || name == "attributes" {
		return 0
	}
	return 1
}

// gitHooks are the hooks that git runs (githooks(5)).
var gitHooks = strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit
	prepare-commit-msg
	commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive
	post-receive post-update
	reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman p4-changelist
	p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change`)
