package corpus

import (
	"cloister/escape"
	"regexp"
	"strings"
)

func hx21() escape.Case {
	return escape.Case{
		ID: "HX-21", Class: "self-approval", Attack: "who asked answers: at the socket and the window from inside, by the proxy, by a host command that a person allowed, by cloister itself as one",
		Source: "CVE-2026-22812; Leash's GHSA-9x85-c42x-79cx", Layers: []string{"net", "view", "peer credentials"}, Needs: map[escape.Layer]string{escape.Net: "questions come by the gate", escape.View: "the project is asked for at /work, which is the view's"},
		Host: func(w *escape.World) []escape.Finding {
			return commands("  auto_approve:\n    - pattern: '^"+regexp.QuoteMeta(w.Self)+" say .*$'\n    - pattern: \"^cloister .*$\"\n    - pattern: '^"+regexp.QuoteMeta(w.Cloister)+" .*$'\n"+asksForAll, func(r *ruled) []escape.Finding {
				return r.watched(func() []escape.Finding {
					v, err := r.open()
					if err != nil {
						return escape.NoHost("open the window", err)
					}
					id := r.asked("cd /work && hostexec echo mine21")
					socket := r.base + "/run/cloister/guardian.sock"
					approve := "POST /v1/approvals/" + id + " HTTP/1.1\r\nHost: guardian\r\nContent-Type: application/json\r\nContent-Length: auto\r\n\r\n{\"answer\":\"allow\",\"scope\":\"once\"}"
					out := []escape.Finding{found("control: it waits", id != "" && len(r.questions()) == 1, "%q", r.questions())}
					for name, argv := range map[string][]string{
						"the socket, from inside":          {r.w.Self, "say", "unix:" + socket, approve},
						"the window, from inside":          {r.w.Self, "say", "tcp:" + v.at, approve},
						"the window by the proxy":          {r.w.Self, "fetch", v.at},
						"the socket, by a host command":    {"hostexec", r.w.Self, "say", "unix:" + socket, approve},
						"the window, by a host command":    {"hostexec", r.w.Self, "say", "tcp:" + v.at, strings.Replace(approve, "Host: guardian", "Host: "+v.at, 1)},
						"cloister, by a host command":      {"hostexec", "cloister", "approvals", "approve", id},
						"cloister by its whole path":       {"hostexec", r.w.Cloister, "approvals", "approve", id},
						"cloister guardian open, likewise": {"hostexec", r.w.Cloister, "guardian", "open"},
					} {
						res := r.cloister(append([]string{"run", "-C", r.project, "--expose", r.w.Self + ":ro", "--"}, argv...)...)
						out = append(out, found(name, !strings.Contains(res.Stdout, " 200 ") && !strings.Contains(res.Stdout, "login#") && len(r.questions()) == 1 && !r.has("status"), "%d %.300s %.300s", res.Status, res.Stdout, res.Stderr))
					}
					status, said := r.approved(id)
					return append(out, found("control: a person answers it", status == "0" && strings.Contains(said, "mine21"), "%s %s", status, said))
				})
			})(w)
		},
	}
}
