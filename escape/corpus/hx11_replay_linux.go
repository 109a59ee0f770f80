package corpus

import (
	"strings"

	"cloister/escape"
)

func hx11() escape.Case {
	return escape.Case{
		ID: "HX-11", Class: "replay", Attack: "one answer is given many times: at once, again, after its question expired, and to the next guardian; what it allowed runs once",
		Source: "OpenShell conditionally_reject_loses_race_to_approval", Layers: []string{"approval queue", "hostexec"},
		Host: ruledWith("", "  manual_approve: [{program: sh, args: [<path>]}]\n", func(r *ruled) []escape.Finding {
			return r.watched(func() []escape.Finding { return replayed(r) })
		}),
	}
}

func replayed(r *ruled) (out []escape.Finding) {
	add := func(name string, held bool, format string, args ...any) {
		out = append(out, found(name, held, format, args...))
	}
	r.host("echo 'echo ran >>count' >once.sh")
	r.begin("first", "hostexec sh once.sh; sleep 60")
	q := r.question("sh once.sh")
	res := r.host("export XDG_CONFIG_HOME=" + r.base + "/config XDG_STATE_HOME=" + r.base + "/state XDG_DATA_HOME=" + r.base + "/data XDG_RUNTIME_DIR=" + r.base + "/run; " +
		"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (" + r.w.Cloister + " approvals approve " + q.ID + " && echo first) 2>&1 & done; wait")
	add("of twelve answers at once one counts", strings.Count(res.Stdout, "first\n") == 1, "%s%s", res.Stdout, res.Stderr)
	ran := r.w.Until(patient, func() bool { return r.lines("count") > 0 })
	add("control: what was allowed ran", ran, "%s", r.cloister("logs", "first").Stdout)
	again := r.cloister("approvals", "approve", q.ID)
	add("again", again.Status == 1 && strings.Contains(again.Stderr, "allowed already") && r.stays(func() bool { return r.lines("count") == 1 }), "status %d: %s, ran %d times", again.Status, again.Stderr, r.lines("count"))

	// By the next guardian.
	r.begin("second", "hostexec sh once.sh; sleep 60")
	q = r.question("sh once.sh")
	r.cloister("guardian", "stop")
	r.w.Until(patient, func() bool { return r.cloister("guardian", "status").Status == 0 }) // the watcher starts the next one
	next := r.cloister("approvals", "approve", q.ID)
	add("to the next guardian", q.ID != "" && next.Status == 1 && strings.Contains(next.Stderr, "no such approval") && r.stays(func() bool { return r.lines("count") == 1 }), "status %d: %s, ran %d times", next.Status, next.Stderr, r.lines("count"))

	// After its time.
	if err := r.configure(", approval_timeout: 2s", "  manual_approve: [{program: sh, args: [<path>]}]\n"); err != nil {
		return append(out, escape.NoHost("configure", err)...)
	}
	r.cloister("guardian", "reload")
	r.begin("third", "hostexec sh once.sh; sleep 60")
	q = r.question("sh once.sh")
	r.w.Until(patient, func() bool { return len(r.pending()) == 0 })
	late := r.cloister("approvals", "approve", q.ID)
	add("after its time", q.ID != "" && late.Status == 1 && strings.Contains(late.Stderr, "over: expired") && r.stays(func() bool { return r.lines("count") == 1 }), "status %d: %s, ran %d times", late.Status, late.Stderr, r.lines("count"))
	r.cloister("stop", "--all", "-t", "1s")
	return out
}
