package corpus

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/escape"
)

// counted are the paths that a list shows, and how many more it says there are.
func counted(text string) (shown []string, more int) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := regexp.MustCompile(`^  and ([0-9]+) more in `).FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				more += n
			}
		} else if path, ok := strings.CutPrefix(line, "  "); ok {
			shown = append(shown, path)
		}
	}
	return shown, more
}

func af17() escape.Case {
	return escape.Case{
		ID: "AF-17", Class: "end list blinded",
		Attack: "hide one file that the host runs among tens of thousands, in names that a terminal obeys, or in what is written after the last look",
		Source: "independent audit: 510,000 links in one line", Layers: []string{"the list at the end", "review"}, Slow: 120,
		Host: between("", func(r *ruled) []escape.Finding {
			var out []escape.Finding
			has := func(name string, res escape.Result, want string, total int) {
				shown, more := counted(res.Stderr)
				at := false
				for _, path := range shown {
					at = at || path == want
				}
				out = append(out, found(name+": the one is named", at, "%.2000s", res.Stderr), found(name+": none is lost", len(shown)+more >= total, "%d and %d of %d", len(shown), more, total),
					found(name+": and the list is one that a person reads", len(shown) <= 2300, "%d lines", len(shown)))
				var list []api.ReviewEntry
				waits := r.host(strings.Join(r.variables(), " ") + " " + r.w.Cloister + " review --json")
				if err := json.Unmarshal([]byte(waits.Stdout), &list); err != nil {
					out = append(out, found(name+": the review", false, "%v %s", err, waits.Stderr))
					return
				}
				waiting := false
				for _, e := range list {
					waiting = waiting || e.Path == want && e.State == "waiting"
				}
				out = append(out, found(name+": it waits for a review", waiting, "%d wait", len(list)))
				r.host(strings.Join(r.variables(), " ") + " " + r.w.Cloister + " review --keep . 2>/dev/null; true")
			}
			r.host(afresh)
			res := r.run("sh", "-c", "mkdir -p a/z sub/.vscode; echo evil >a/z/.envrc; cd sub/.vscode; i=0; while [ $i -lt 30000 ]; do echo x >f$i; i=$((i+1)); done")
			has("30,000 in one folder", res, "a/z/.envrc", 30001)
			r.host(afresh)
			res = r.run("sh", "-c", "seq -f a%g 1500 | xargs mkdir; for d in a*; do echo x >$d/.envrc; done; mkdir zz; echo evil >zz/.envrc")
			has("1,500 folders", res, "zz/.envrc", 1501)
			r.host(afresh)
			res = r.run("sh", "-c", "i=0; while [ $i -lt 3500 ]; do echo a/b$((i/100))/c$i; i=$((i+1)); done | xargs mkdir -p; for d in a/b*/c*; do echo x >$d/.envrc; done; echo evil >.npmrc")
			shown, more := counted(res.Stderr)
			out = append(out, found("3,500 folders: each is named or counted", len(shown)+more >= 3500, "%d and %d: %.400s", len(shown), more, res.Stderr))
			r.host(afresh)
			res = r.run("sh", "-c", `mkdir "$(printf 'x\033[2K\033[1A')" "$(printf 'y\rz')" 'a
  b'; for d in */; do echo evil >"$d/.envrc"; done; mkdir ok; echo evil >ok/.envrc`)
			out = append(out, found("names that a terminal obeys are shown as text", !strings.ContainsAny(res.Stderr, "\x1b\r") && strings.Contains(res.Stderr, `\x1b[2K`), "%q", res.Stderr))
			has("beside such names", res, "ok/.envrc", 4)
			// Written by what the command left behind: it ends before the last look.
			r.host(afresh)
			res = r.run("sh", "-c", "mkdir late; (setsid sh -c 'trap \"\" TERM HUP INT; while :; do echo evil >late/.envrc.new; mv late/.envrc.new late/.envrc; done' >/dev/null 2>&1 &); sleep 0.2")
			before := r.text("late/.envrc")
			r.host("rm -f late/.envrc; sleep 0.5")
			out = append(out, found("what the command left behind ends first", before != "" && !r.has("late/.envrc"), "%q, and it is there again", before))
			shown, _ = counted(res.Stderr)
			out = append(out, found("and what it wrote is named", len(shown) == 1 && shown[0] == "late/.envrc", "%q", shown))
			// A shim that is killed lists nothing; the guardian looks.
			r.host(afresh)
			live := r.cloister("run", "-d", "--name", "killed", "-C", r.project, "--", "sh", "-c", "mkdir k; echo evil >k/.envrc; touch done; sleep 60")
			r.w.Until(patient, func() bool { return r.has("done") })
			killed := r.host("kill -9 $(" + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " list --json | sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p')")
			told := r.w.Until(patient, func() bool {
				res := r.host(strings.Join(r.variables(), " ") + " " + r.w.Cloister + " review --json")
				return strings.Contains(res.Stdout, `"k/.envrc"`)
			})
			return append(out, worked("a session in the background", live), worked("its shim is killed", killed),
				found("what it wrote waits all the same", told, "%s", r.host(strings.Join(r.variables(), " ")+" "+r.w.Cloister+" review --json").Stdout))
		}),
	}
}
