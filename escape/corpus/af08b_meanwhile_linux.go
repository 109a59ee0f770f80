package corpus

import (
	"strings"

	"cloister/escape"
)

func af08b() escape.Case {
	return escape.Case{
		ID: "AF-08b", Class: "index during a session",
		Attack: "while the session lives, have git of the host run something by the index that it reads, and hold the lie beyond the session's end",
		Source: "docs/decisions/0041", Layers: []string{"the index read again", "overlay"},
		Except: map[escape.Column]string{escape.GVisor: "files have other numbers there than on the host: a forged index deceives no one"},
		Host: between("", func(r *ruled) []escape.Finding {
			r.host(newRepository + "; echo good >forged; echo good >kept; git add .; git -c user.name=a -c user.email=a@b.example commit -qm second")
			evil := "printf '#!/bin/sh\\ntouch " + r.base + "/ran\\n' >evil; chmod +x evil; git config core.fsmonitor $PWD/evil; mkdir -p .git/hooks; cp evil .git/hooks/post-index-change"
			script := "{ " + forge("forged") + "; " + evil + "; } 2>/dev/null; touch done; until [ -e over ]; do sleep 0.1; done"
			status := "git status --porcelain -uno"
			begin := func(name string, words ...string) escape.Result {
				return r.cloister(append(append([]string{"run", "-d", "--name", name, "-C", r.project}, words...), "--", "sh", "-c", script)...)
			}
			live := begin("live")
			ready := r.w.Until(patient, func() bool { return r.has("done") })
			during := r.host(status + "; git add -A 2>/dev/null; git diff --cached --quiet; ls " + r.base + "/ran 2>/dev/null; true")
			out := []escape.Finding{worked("a session", live), found("it forges", ready, "it did not"),
				found("git of the host runs nothing", !strings.Contains(during.Stdout, "/ran"), "%s", during.Stdout),
				found("control: meanwhile git shows what the session says", !strings.Contains(during.Stdout, "forged"), "%s", during.Stdout)}
			r.host("git reset -q; touch over")
			told := r.w.Until(patient, func() bool { return strings.Contains(r.host(status).Stdout, " M forged\n") })
			out = append(out, found("when it has ended git shows the change", told, "%s", r.host(status).Stdout))
			r.host("rm -f over done evil; git checkout -q forged")
			before := r.text(".git/index")
			kept := begin("kept", "--workspace", "overlay")
			ready = r.w.Until(patient, func() bool {
				return strings.Contains(r.host(strings.Join(r.variables(), " ")+" "+r.w.Cloister+" diff --name-only kept").Stdout, "done")
			})
			same := r.text(".git/index") == before
			shown := r.host(status)
			stopped := r.cloister("stop", "kept")
			return append(out, worked("a session over an overlay", kept), found("it forges, too", ready, "it did not"),
				found("the host's index is the host's", same, "it changed"), found("and git shows what lies there", shown.Stdout == "" && r.text("forged") == "good\n", "%s", shown.Stdout),
				worked("it is stopped", stopped))
		}),
	}
}
