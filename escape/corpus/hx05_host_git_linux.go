package corpus

import (
	"strings"

	"cloister/escape"
)

func hx05() escape.Case {
	return escape.Case{
		ID: "HX-05", Class: "git in an agent's repository", Attack: "git of the host is asked for, with options and in a repository that brings fsmonitor, hooks, helpers, filters and rewritten remotes (HX-04 too)",
		Source: "CVE-2026-26268; CVE-2022-24765; sandvault #177", Layers: []string{"hostexec", "commands"},
		Host: commands("  auto_approve:\n    - pattern: \"^git .*$\"\n    - {program: git, args: [push, \"file:///nonexistent/cloister-hx05.git\", <ref>]}\n", func(r *ruled) []escape.Finding {
			canary := r.base + "/canary"
			made := r.run("sh", "-euc", `mkdir sub; cd sub; git init -q .
git config core.fsmonitor "touch `+canary+`"
git config credential.helper "!touch `+canary+`"
git config core.sshCommand "touch `+canary+`"
git config url.ext::touch.insteadOf https://git.example/
git config remote.origin.url https://git.example/x
git config alias.push "!touch `+canary+`"
printf '#!/bin/sh\ntouch `+canary+`\n' >.git/hooks/pre-push; chmod +x .git/hooks/pre-push
git commit -q --allow-empty -m x`)
			out := []escape.Finding{found("the repository", made.Status == 0, "status %d: %s", made.Status, made.Stderr)}
			for _, argv := range [][]string{
				{"git", "status"},
				{"git", "-c", "core.pager=touch " + canary, "log"},
				{"git", "--exec-path=/tmp", "status"},
				{"git", "-C", ".", "push"},
				{"git", "push", "origin", "HEAD"},
				{"git", "push", "ext::touch " + canary, "HEAD:x"},
				{"git", "push", "--receive-pack=touch " + canary, "file:///nonexistent/cloister-hx05.git", "HEAD:x"},
				{"git-receive-pack", "--upload-pack=touch"},
				{"git-upload-pack", "ssh://-oProxyCommand=touch/x"},
			} {
				res := r.run(append([]string{"sh", "-c", `cd sub && exec hostexec "$@"`, "sh"}, argv...)...)
				out = append(out, found(strings.Join(argv[:2], " "), res.Status != 0 && !exists(canary), "status %d, canary %t: %s", res.Status, exists(canary), res.Stderr))
				clean(canary)
			}
			control := r.host("cd sub && git -c safe.directory='*' status")
			return append(out, found("control: git outside obeys the repository", exists(canary), "nothing is there: %s%s", control.Stdout, control.Stderr))
		}),
	}
}
