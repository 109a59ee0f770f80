package corpus

import (
	"cloister/escape"
	"strings"
	"sync"
	"sync/atomic"
)

func hx11a() escape.Case {
	return escape.Case{
		ID: "HX-11a", Class: "replay, other ways", Attack: "one answer is given twice, twenty times at once, after a no, after the asker left, and to the next guardian: it runs once at most",
		Source: "OpenShell conditionally_reject_loses_race_to_approval", Layers: []string{"approval"},
		Host: commands("  manual_approve:\n    - pattern: \"^sh job.sh$\"\n", func(r *ruled) []escape.Finding {
			var old string
			out := r.watched(func() []escape.Finding {
				const ask = "cd /work && echo 'echo ran >>runs' >job.sh && hostexec sh job.sh"
				runs := func() int { return strings.Count(r.text("runs"), "ran\n") }
				id := r.asked(ask)
				old = id
				var wait sync.WaitGroup
				var took atomic.Int32
				for range 20 {
					wait.Go(func() {
						if r.cloister("approvals", "approve", id).Status == 0 {
							took.Add(1)
						}
					})
				}
				wait.Wait()
				status, said := r.ended()
				again := r.cloister("approvals", "approve", id)
				out := []escape.Finding{
					found("twenty at once: one is taken, and it runs once", id != "" && took.Load() == 1 && status == "0" && runs() == 1, "%d took it, %d runs, %s %s", took.Load(), runs(), status, said),
					found("once more, afterwards", again.Status != 0 && runs() == 1, "%d %s", again.Status, again.Stderr),
				}
				id = r.asked(ask)
				no, yes := r.cloister("approvals", "deny", id), r.cloister("approvals", "approve", id)
				status, said = r.ended()
				out = append(out, found("yes after a no", no.Status == 0 && yes.Status != 0 && status != "0" && runs() == 1, "%d %d %d runs %s %s", no.Status, yes.Status, runs(), status, said))
				id = r.asked(ask)
				stop := r.cloister("stop", "--all", "-t", "1s")
				yes = r.cloister("approvals", "approve", id)
				return append(out, found("yes when who asked is gone", id != "" && stop.Status == 0 && yes.Status != 0 && runs() == 1, "%d %d %d runs", stop.Status, yes.Status, runs()))
			})
			r.cloister("guardian", "stop")
			r.cloister("guardian", "start")
			next := r.cloister("approvals", "approve", old)
			return append(out, found("the next guardian", next.Status != 0 && strings.Count(r.text("runs"), "ran\n") == 1, "%d %s", next.Status, next.Stdout))
		}),
	}
}
