package corpus

import (
	"strings"
	"time"

	"cloister/escape"
)

func se20() escape.Case {
	config := func(w *escape.World) string {
		text := strings.Replace(secretive(w), "format: \"Bearer {}\"}", "format: \"Bearer {}\", use: ask}", 1)
		return text + "mcp:\n  servers:\n    - {name: tools, url: \"https://tools.test/ok/mcp\", allow_tools: [read], ask_tools: [write]}\n" +
			"hostexec:\n  manual_approve:\n    - pattern: \"^sh job.sh( .*)?$\"\n"
	}
	return escape.Case{
		ID: "SE-20", Class: "one answer, many uses", Attack: "several requests wait for the same secret, the same tool, the same host command at once: one answer releases one, the one that was shown",
		Source: "issue 16, second audit", Layers: []string{"approval"}, Needs: gate(),
		Host: withSecret(config, func(r *ruled) []escape.Finding {
			if err := r.w.Write(r.project+"/job.sh", "echo ran $1 >>runs\n"); err != nil {
				return escape.NoHost("write a job", err)
			}
			write := func(path string) string {
				return rpc("tools.test", "/ok/mcp", "tools/call", `{"name":"write","arguments":{"path":"`+path+`"}}`)
			}
			kinds := []struct{ name, mark, one, two string }{
				{"a secret", canary, r.w.Self + " say tls:bound.test '" + get("bound.test", "/ok/one20", bearer) + "'", r.w.Self + " say tls:bound.test '" + get("bound.test", "/ok/two20", bearer) + "'"},
				{"a tool", "called: write", r.w.Self + " say tls:tools.test '" + write("one20") + "'", r.w.Self + " say tls:tools.test '" + write("two20") + "'"},
				{"a host command", "ran ", "cd /work && hostexec sh job.sh one20", "cd /work && hostexec sh job.sh two20"},
			}
			return r.watched(func() []escape.Finding {
				var out []escape.Finding
				for _, k := range kinds {
					clean(r.project + "/runs")
					before := len(r.w.Upstream())
					happened := func() string {
						text := strings.Join(r.w.Upstream()[before:], "\n")
						if r.has("runs") {
							text += r.text("runs")
						}
						return text
					}
					clean(r.project+"/out", r.project+"/status")
					r.started("(" + k.one + ") & (" + k.one + ") & (" + k.two + ") & wait")
					var ids []string
					r.w.Until(patient, func() bool { ids = r.questions(); return len(ids) >= 2 })
					time.Sleep(500 * time.Millisecond) //nolint:forbidigo // the third may be asked about, too
					ids = r.questions()
					out = append(out, found(k.name+": they wait, and nothing has happened", len(ids) >= 2 && !strings.Contains(happened(), k.mark), "%q %s %s", ids, happened(), r.text("out")))
					if len(ids) < 2 {
						r.cloister("stop", "--all", "-t", "1s")
						continue
					}
					shown := r.cloister("approvals", "show", ids[0])
					yes := r.cloister("approvals", "approve", ids[0])
					r.w.Until(patient, func() bool { return strings.Contains(happened(), k.mark) })
					time.Sleep(500 * time.Millisecond) //nolint:forbidigo // what must not happen has time to
					one := strings.Count(happened(), k.mark)
					left := r.questions()
					again := r.cloister("approvals", "approve", ids[0])
					out = append(out,
						found(k.name+": one answer releases one", yes.Status == 0 && one == 1 && len(left) >= 1, "%d %d times, %q wait: %s", yes.Status, one, left, happened()),
						found(k.name+": and it is the one that was shown", k.name == "a tool" || strings.Contains(shown.Stdout, "two20") == strings.Contains(happened(), "two20"), "%s; %s", shown.Stdout, happened()),
						found(k.name+": the same answer again releases none", again.Status != 0 && strings.Count(happened(), k.mark) == 1, "%d %s", again.Status, happened()))
					r.w.Until(patient, func() bool {
						for _, id := range r.questions() {
							r.cloister("approvals", "deny", id)
						}
						return r.has("status")
					})
					out = append(out, found(k.name+": what was denied did not happen", strings.Count(happened(), k.mark) == 1, "%s", happened()))
				}
				return out
			})
		}),
	}
}
