package corpus

import (
	"encoding/json"
	"strings"
	"time"

	"cloister/api"
	"cloister/escape"
)

// patient is how long a person and a program wait for each other here.
const patient = 2 * time.Minute

// ruledWith is hosted with words for proxy, too.
func ruledWith(proxy, text string, look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return func(w *escape.World) []escape.Finding {
		r, err := instance(w, ruledText(proxy, text))
		if err != nil {
			return escape.NoHost("make a world with rules", err)
		}
		defer r.close()
		return look(r)
	}
}

func (r *ruled) configure(proxy, text string) error {
	return r.write(ruledText(proxy, text))
}

func ruledText(proxy, text string) string {
	return "version: 1\nproxy: {presets: []" + proxy + "}\nhostexec:\n" + text
}

// watched is a person who watches, while look looks.
func (r *ruled) watched(look func() []escape.Finding) []escape.Finding {
	watcher := r.background("approvals watch --lines")
	defer r.host("kill -INT " + watcher)
	if !r.w.Until(patient, func() bool {
		return strings.Contains(r.cloister("guardian", "status", "--json").Stdout, `"watchers": 1`)
	}) {
		return []escape.Finding{found("somebody watches", false, "nobody does")}
	}
	return look()
}

// background runs cloister with these words, and gives its number.
func (r *ruled) background(words string) string {
	res := r.host("XDG_CONFIG_HOME=" + r.base + "/config XDG_STATE_HOME=" + r.base + "/state XDG_DATA_HOME=" + r.base + "/data XDG_RUNTIME_DIR=" + r.base + "/run " +
		r.w.Cloister + " " + words + " >/dev/null 2>&1 </dev/null & echo $!")
	return strings.TrimSpace(res.Stdout)
}

// begin runs a script in a cloister of the project, and does not wait.
func (r *ruled) begin(name, script string) escape.Result {
	return r.cloister("run", "-d", "--name", name, "-C", r.project, "--", "sh", "-c", script)
}

func (r *ruled) pending(flags ...string) []api.Approval {
	var list []api.Approval
	res := r.cloister(append([]string{"approvals", "list", "--json"}, flags...)...)
	if json.Unmarshal([]byte(res.Stdout), &list) != nil {
		return nil
	}
	return list
}

// question waits for one whose title holds a text.
func (r *ruled) question(text string) (q api.Approval) {
	r.w.Until(patient, func() bool {
		for _, a := range r.pending() {
			if strings.Contains(a.Title, text) {
				q = a
			}
		}
		return q.ID != ""
	})
	return q
}

// lines is how many a file of the project has.
func (r *ruled) lines(name string) int {
	res := r.host("cat " + name + " 2>/dev/null")
	return strings.Count(res.Stdout, "\n")
}

// stays tells whether it is so, and is so a moment later.
func (r *ruled) stays(is func() bool) bool {
	return !r.w.Until(time.Second, func() bool { return !is() })
}
