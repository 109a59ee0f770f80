package corpus

import (
	"fmt"
	"os"
	"strings"

	"cloister/escape"
)

// planted are the programs that a payload puts where the person's PATH finds them first.
const planted = "git gh gzip ssh sh env sed edit02 xdg-open tool"

func af02() escape.Case {
	return escape.Case{
		ID: "AF-02", Class: "planted host program",
		Attack: "put executables called git, gh, gzip and ssh into a folder of the person's PATH that a session may write: Cloister, what it starts and their children run them outside",
		Source: "independent audit: worktrees, refreshes, host commands", Layers: []string{"program resolver", "register of places"},
		Host: with(func(w *escape.World) string {
			return "version: 1\nproxy: {presets: []}\nhostexec:\n  auto_approve: [{pattern: \"^(tool|git --version)$\"}]\n" +
				"audit: {anchor_command: [" + w.Home + "/af02/bin/anchor]}\n"
		}, func(r *ruled) []escape.Finding {
			home := r.w.Home + "/af02"
			defer clean(home)
			marks := r.base + "/ran"
			if err := os.Mkdir(marks, 0o777); err != nil {
				return escape.NoHost("make a folder for marks", err)
			}
			r.host(newRepository + "; mkdir -p " + home + "/bin; printf '#!/bin/sh\\ngit --version; gzip --version\\n' >" + home + "/bin/tool; " +
				"printf '#!/bin/sh\\ncat >/dev/null; gzip --version\\n' >" + home + "/bin/anchor; chmod 755 " + home + "/bin/*")
			plant := "mkdir -p .bin && cd .bin && for p in " + planted + "; do printf '#!/bin/sh\\n/usr/bin/touch " + marks + "/%s\\n' $p >$p; done; chmod 755 *"
			out := []escape.Finding{worked("the programs are planted", r.run("sh", "-c", plant))}
			path := r.project + "/.bin:" + home + "/bin"
			r.cloister("guardian", "stop")
			for _, words := range [][]string{
				{"worktree", "list", "-C", r.project}, {"run", "-C", r.project, "-b", "side", "--", "true"}, {"worktree", "remove", "-C", r.project, "side"},
				{"run", "-C", r.project, "--", "hostexec", "tool"}, {"run", "-C", r.project, "--", "hostexec", "git", "--version"},
				{"run", "-C", r.project, "--", "sh", "-c", "git status; git fetch origin; true"},
				{"secret", "set", "A", "--refresh", "1s", "--", "tool"}, {"secret", "set", "B", "--refresh", "1s", "--", "git", "--version"},
				{"secret", "set", "C", "--refresh", "1s", "--", "gh", "auth", "token"},
				{"doctor"}, {"list"}, {"review", "-C", r.project}, {"project", "list"}, {"audit", "verify"}, {"audit", "anchor"}, {"image", "list"},
			} {
				res := r.on(path, words...)
				out = append(out, r.unrun(marks, strings.Join(words, " "), fmt.Sprintf("%d %s%s", res.Status, res.Stdout, res.Stderr)))
			}
			for _, editor := range []string{"edit02", "sed -n p", r.project + "/.bin/edit02"} {
				res := r.host("EDITOR='" + editor + "' PATH=" + path + ":$PATH " + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " config edit")
				out = append(out, r.unrun(marks, "an editor: "+editor, res.Stderr))
			}
			tool := r.on(home+"/bin", "run", "-C", r.project, "--", "hostexec", "tool")
			out = append(out, found("control: a program of the person's own runs, and its children", strings.Contains(tool.Stdout, "gzip"), "%s%s", tool.Stdout, tool.Stderr))
			for p := range strings.FieldsSeq(planted) {
				r.host("PATH=" + path + ":$PATH; " + p + " --version")
				out = append(out, found("control: a shell of the host runs "+p, exists(marks+"/"+p), "it did not"))
			}
			return out
		}),
	}
}

// unrun tells that nothing planted was run, and by what.
func (r *ruled) unrun(marks, name, detail string) escape.Finding {
	list, err := os.ReadDir(marks)
	ran := []string{}
	for _, e := range list {
		ran = append(ran, e.Name())
		clean(marks + "/" + e.Name())
	}
	return found(name+": nothing planted runs", err == nil && len(ran) == 0, "%q ran: %s", ran, detail)
}
