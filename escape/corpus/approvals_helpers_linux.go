package corpus

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// asked runs a script inside, in the background, and waits for its question.
// Its status and output are in the files status and out of the project.
func (r *ruled) asked(script string) (id string) {
	clean(r.project+"/out", r.project+"/status")
	r.started(script)
	return r.anyQuestion()
}

// started runs it, and waits for nothing.
func (r *ruled) started(script string) {
	words := []string{"-C", r.project, "--expose", r.w.Self + ":ro", "--", "sh", "-c",
		"{ " + spelled(script) + "; } >/work/out 2>&1; echo $? >/work/status.new; mv /work/status.new /work/status"}
	if name, argv := r.shares(append([]string{"run"}, words...)); name != "" {
		r.waiting.Go(func() { r.cloister(append([]string{"exec", name, "--"}, argv...)...) })
		return
	}
	r.cloister(append([]string{"run", "-d"}, words...)...)
}

// spelled is a script in words of UTF-8, which is all that some levels take.
func spelled(script string) string {
	if utf8.ValidString(script) {
		return script
	}
	var b strings.Builder
	for _, c := range []byte(script) {
		fmt.Fprintf(&b, "\\%03o", c)
	}
	return `eval "$(printf '` + b.String() + `')"`
}

// anyQuestion is the ID of the last one that waits; "" for none.
func (r *ruled) anyQuestion() (id string) {
	r.w.Until(patient, func() bool {
		if ids := r.questions(); len(ids) > 0 {
			id = ids[len(ids)-1]
		}
		return id != "" || r.has("status") // it ended without one
	})
	return id
}

// questions are those that wait.
func (r *ruled) questions() []string {
	var ids []string
	for _, a := range r.pending() {
		ids = append(ids, a.ID)
	}
	return ids
}

// ended waits for the end of what asked, and gives its status and output.
func (r *ruled) ended() (status, out string) {
	r.w.Until(patient, func() bool { return r.has("status") })
	return strings.TrimSpace(r.text("status")), r.text("out")
}

func (r *ruled) text(name string) string {
	text, err := os.ReadFile(r.project + "/" + name)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// approved answers and tells how it ended.
func (r *ruled) approved(id string, words ...string) (status, out string) {
	res := r.cloister(append([]string{"approvals", "approve", id}, words...)...)
	if res.Status != 0 {
		return "unanswered", res.Stderr + r.text("out") + r.cloister("list", "-a").Stdout
	}
	return r.ended()
}
