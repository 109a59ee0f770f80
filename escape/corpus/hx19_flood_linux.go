package corpus

import (
	"fmt"
	"strings"

	"cloister/escape"
)

func hx19() escape.Case {
	return escape.Case{
		ID: "HX-19", Class: "flood", Attack: "a session asks 200 times in a minute, one of them dangerous: a bound for each session, one question for equal ones only, and an answer for one alone",
		Source: "users accept 93 % of prompts", Layers: []string{"approval queue"},
		Host: func(w *escape.World) []escape.Finding {
			to := fmt.Sprintf("127.0.0.1:%d", w.Port)
			return ruledWith(`, unlisted_domain_behavior: ask, approval_timeout: 50s, hosts: {flood.example: "`+to+`"}`, "  manual_approve: [{pattern: \"^unused$\"}]\n", flooded)(w)
		},
	}
}

func flooded(r *ruled) []escape.Finding {
	return r.watched(func() (out []escape.Finding) {
		add := func(name string, held bool, format string, args ...any) {
			out = append(out, found(name, held, format, args...))
		}
		const one = "curl -s -o /dev/null --max-time 45 --connect-timeout 45 http://flood.example:%s/ &"
		r.begin("flood", "for i in $(seq 6); do "+fmt.Sprintf(one, "7777")+" done; sleep 1; "+
			"for p in $(seq 8001 8200); do "+fmt.Sprintf(one, "$p")+" done; wait; sleep 60")
		full := r.w.Until(patient, func() bool { return len(r.pending()) >= 50 })
		settled := r.stays(func() bool { return len(r.pending()) <= 64 })
		list := r.pending()
		add("control: many are asked about", full, "%d", len(list))
		add("never more than a session may", settled, "%d wait", len(list))
		equal, others := 0, 0
		for _, a := range list {
			if strings.Contains(a.Subject, ":7777") {
				equal, others = equal+1, a.Waiting
			}
		}
		add("equal ones are one question", equal == 1 && others >= 2, "%d questions, %d wait for it", equal, others)
		over := r.w.Until(patient, func() bool {
			return strings.Contains(r.host("cat "+r.base+"/state/cloister/audit/*.jsonl").Stdout, "this session asks too much already")
		})
		add("what is too much is refused, and recorded", over, "no such record")
		if len(list) == 0 {
			return out
		}
		before := len(r.pending())
		for _, words := range [][]string{{"approvals", "approve"}, {"approvals", "approve", "--all"}, {"approvals", "approve", list[0].ID, list[0].ID}, {"approvals", "approve", "*"}, {"approvals", "approve", ""}} {
			res := r.cloister(words...)
			add("no word answers all: "+strings.Join(words[1:], " "), res.Status != 0, "status %d: %s", res.Status, res.Stdout)
		}
		res := r.cloister("approvals", "approve", list[0].ID)
		add("one answer is for one", res.Status == 0 && r.stays(func() bool { return before-len(r.pending()) <= 1 }), "status %d: %s%s; %d waited, %d do", res.Status, res.Stdout, res.Stderr, before, len(r.pending()))
		r.cloister("stop", "--all", "-t", "1s")
		return out
	})
}
