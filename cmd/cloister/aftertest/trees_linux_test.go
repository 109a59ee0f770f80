package aftertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// layTree is a script that lays a person's project: what tools of the day leave there.
func layTree(rng *rand.Rand) string {
	steps := []string{
		"git init -q -b main . && mkdir -p src conf .github && echo 'int main;' >src/main.c && echo 'export A=1' >conf/env",
		"git init -q --bare ../$(basename $PWD).git && git remote add origin ../$(basename $PWD).git",
	}
	for _, maybe := range []string{
		"echo 'export A=1' >.envrc",
		"ln -s conf/env .envrc",
		"mkdir -p .vscode && echo '{}' >.vscode/tasks.json",
		"mkdir -p build/vs && echo '{}' >build/vs/tasks.json && ln -s build/vs .vscode",
		"mkdir -p .husky && printf '#!/bin/sh\\n' >.husky/pre-commit && chmod +x .husky/pre-commit && git config core.hooksPath .husky",
		"mv .git/hooks hk && ln -s ../hk .git/hooks",
		"printf '#!/bin/sh\\n' >.git/hooks/pre-push && chmod +x .git/hooks/pre-push",
		"mkdir -p node_modules/.bin && printf '#!/bin/sh\\n' >node_modules/.bin/tool",
		"git submodule --quiet add ../../lib lib",
		"git init -q -b main sub && (cd sub && echo s >s && git add . && git commit -qm s)",
		"git init -q --bare vendor/x.git",
		"ln -s ../conf src/link",
		"ln conf/env src/twin",
		"echo '*.c diff=c' >.gitattributes",
		"git config extensions.worktreeConfig true",
	} {
		if rng.IntN(3) == 0 {
			steps = append(steps, "{ "+maybe+"; } 2>/dev/null || true")
		}
	}
	steps = append(steps, "git add -A && git commit -qm first && git push -q origin HEAD")
	if rng.IntN(4) == 0 {
		steps = append(steps, "git worktree add -q ../$(basename $PWD)-wt -b wt")
	}
	return strings.Join(steps, " && ")
}

// places are where programs of the host look, and others.
var places = strings.Fields(`.git .git/HEAD .git/config .git/config.worktree .git/hooks .git/hooks/pre-push .git/hooks/post-checkout .git/objects
	.git/objects/info .git/objects/info/alternates .git/objects/evil .git/refs .git/refs/heads .git/refs/replace .git/info .git/info/attributes
	.git/modules .git/modules/lib .git/modules/lib/HEAD .git/modules/lib/config .git/worktrees .git/commondir .git/remotes .git/remotes/origin
	.git/branches/origin .git/index .git/logs .git/packed-refs HEAD objects refs config commondir hooks sub sub/.git sub/.git/HEAD sub/.git/config
	sub/.git/hooks lib lib/.git .envrc .vscode .vscode/tasks.json .husky .husky/pre-commit .gitattributes .gitmodules node_modules/.bin
	node_modules/.bin/git conf conf/env build build/vs build/vs/tasks.json hk hk/pre-push src src/main.c src/twin src/link deep/a/b x y vendor
	vendor/x.git vendor/x.git/config .github .idea Makefile package.json`)

// ofGit are those that git of the host obeys at once.
var ofGit = strings.Fields(`.git .git/HEAD .git/config .git/config.worktree .git/hooks .git/hooks/pre-push .git/info/attributes .git/commondir
	.git/modules/lib/config .git/remotes/origin hk hk/pre-push .husky .husky/pre-commit .gitattributes lib/.git sub/.git/config x`)

// attackScript is a session's, of random steps, each of which may fail.
func attackScript(rng *rand.Rand, outside, mark string) string {
	run := "touch " + mark
	settings := []string{
		"core.fsmonitor '" + run + "; false'", "core.pager '" + run + "'", "core.sshCommand '" + run + "'", "core.hooksPath x", "core.hooksPath ../outside",
		"diff.external '" + run + "'", "diff.c.textconv '" + run + "; cat'", "diff.c.command '" + run + "'", "filter.evil.clean '" + run + "; cat'",
		"filter.evil.process '" + run + "'", "include.path x", "include.path ../src/main.c", "core.worktree " + outside, "core.bare true",
		"remote.origin.url 'ext::sh -c \"" + run + "\"'", "protocol.ext.allow always", "remote.origin.uploadpack '" + run + "; git-upload-pack'",
		"remote.origin.receivepack '" + run + "; git-receive-pack'", "credential.helper '!" + run + "'", "core.alternateRefsCommand '" + run + "'",
		"submodule.lib.update '!" + run + "'", "status.submoduleSummary true", "extensions.worktreeConfig true", "core.attributesFile x",
	}
	config := `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = ` + run + `; false\n\thooksPath = hk\n` +
		`[diff]\n\texternal = ` + run + `\n[diff "c"]\n\ttextconv = ` + run + `; cat\n[filter "evil"]\n\tclean = ` + run + `; cat\n[include]\n\tpath = x\n` +
		`[remote "origin"]\n\turl = ../lib\n\tuploadpack = ` + run + `; git-upload-pack\n`
	program := `#!/bin/sh\n` + run + `\n`
	at := func() string {
		if rng.IntN(2) == 0 {
			return ofGit[rng.IntN(len(ofGit))]
		}
		return places[rng.IntN(len(places))]
	}
	to := func() string {
		return append(places, outside, outside+"/secret", outside+"/lib", "..", "../..", "/", "../../.ssh", "loop", "../"+at(), "../../"+at())[rng.IntN(len(places)+10)]
	}
	text := func() string {
		return []string{config, program, `gitdir: ` + to() + `\n`, to() + `\n`, `ref: refs/heads/main\n`, `* filter=evil diff=c\n`, `evil\n`}[rng.IntN(7)]
	}
	repository := func() string { return []string{".", "sub", "lib", at()}[rng.IntN(4)] }
	kinds := []func() string{
		func() string { return fmt.Sprintf("ln -sfn %s %s", to(), at()) },
		func() string { return fmt.Sprintf("rm -rf %s; ln -s %s %[1]s", at(), to()) },
		func() string { return fmt.Sprintf("ln %s %s", at(), at()) },
		func() string { return fmt.Sprintf("mv %s %s", at(), at()) },
		func() string { return fmt.Sprintf("rm -rf %s", at()) },
		func() string { return fmt.Sprintf("mkdir -p %s", at()) },
		func() string {
			p := at()
			return fmt.Sprintf("mkdir -p $(dirname %s); printf '%s' >%[1]s; chmod +x %[1]s", p, quote(text()))
		},
		func() string { return fmt.Sprintf("printf '%s' >>%s", quote(text()), at()) },
		func() string { return fmt.Sprintf("cp -r %s %s", at(), at()) },
		func() string {
			return fmt.Sprintf("chmod %s %s", []string{"0", "777", "100", "u+s"}[rng.IntN(4)], at())
		},
		func() string {
			return fmt.Sprintf("git init -q %s %s", []string{"", "--bare", "--separate-git-dir=y"}[rng.IntN(3)], at())
		},
		func() string {
			p := at()
			return fmt.Sprintf("mkdir -p %s/objects %[1]s/refs/heads; printf 'ref: refs/heads/main\\n' >%[1]s/HEAD; printf '%s' >%[1]s/config", p, quote(config))
		},
		func() string {
			return fmt.Sprintf("mkdir -p objects refs/heads; printf 'ref: refs/heads/main\\n' >HEAD; printf '%s' >config", quote(config))
		},
		func() string {
			return fmt.Sprintf("git -C %s config %s", repository(), settings[rng.IntN(len(settings))])
		},
		func() string {
			return fmt.Sprintf("git -C %s config -f %s %s", repository(), at(), settings[rng.IntN(len(settings))])
		},
		func() string { return "git worktree add -q " + at() },
		func() string { return "git -c protocol.file.allow=always submodule --quiet add ./sub " + at() },
		func() string { return "git add -A; git -c core.hooksPath=/dev/null commit -qm other" },
		func() string { return "git branch -m other" },
		func() string {
			return "git checkout -q -b b; git update-ref refs/replace/$(git rev-parse HEAD) $(git rev-parse HEAD)"
		},
		func() string { return "mkfifo " + at() },
		func() string { return "printf '* filter=evil diff=c\\n' >.gitattributes; touch src/*" },
		func() string {
			return fmt.Sprintf("i=0; while [ $i -lt 12 ]; do ln -s ../%s %s/l$i; i=$((i+1)); done", at(), at())
		},
		func() string { return "exec 3>" + at() },
	}
	var b strings.Builder
	b.WriteString("step() { timeout 5 sh -c \"$1\"; }\n{\n")
	for range 3 + rng.IntN(10) {
		b.WriteString("step " + single(kinds[rng.IntN(len(kinds))]()) + "\n")
	}
	b.WriteString("} >/dev/null 2>&1\ntrue\n")
	return b.String()
}

// quote is a text within single quotes that is a format of printf.
func quote(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "'", `'\''`), "%", "%%")
}

// single is a word of the shell's.
func single(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// lookScript is the next session's: it reads all that it can, and writes where links lead.
func lookScript(outside, home string) string {
	return fmt.Sprintf(`{
timeout 20 grep -rIs CANARY . 
for f in $(timeout 10 find -L . -maxdepth 6 -type f 2>/dev/null | head -400); do timeout 1 cat "$f"; done
cat %[1]s/secret %[1]s/lib/key %[2]s/.ssh/id
for f in $(timeout 10 find . -maxdepth 6 -type l 2>/dev/null | head -200); do timeout 1 sh -c "cat '$f'; cat '$f/secret' '$f/key' '$f/id'; echo %[3]s >>'$f'; echo %[3]s >>'$f/new'"; done
} 2>/dev/null | grep -a CANARY
true
`, outside, home, written)
}
