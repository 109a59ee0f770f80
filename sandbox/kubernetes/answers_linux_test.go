package kubernetes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What API servers answered, in kubectl's words. TestClusterAnswers holds those that a server of one
// node gives to a real one.
const (
	tooMany     = "Error from server (TooManyRequests): the server has received too many requests and has asked us to try again later (post pods)"
	internal    = "Error from server (InternalError): an error on the server (\"etcdserver: leader changed\") has prevented the request from succeeding"
	unavailable = "Error from server (ServiceUnavailable): the server is currently unable to handle the request"
	timeout     = "Error from server (Timeout): the server was unable to return a response in the time allotted"
	conflict    = "Error from server (Conflict): Operation cannot be fulfilled on pods \"x\": the object has been modified"
	exists      = `Error from server (AlreadyExists): error when creating "STDIN": pods "x" already exists`
	forbidden   = `Error from server (Forbidden): error when creating "STDIN": pods "x" is forbidden: exceeded quota`
	invalid     = `The Pod "x" is invalid: spec.containers: Required value`
)

// TestDoubleBusy: what passes is tried again, and what was done in spite of its answer counts once.
func TestDoubleBusy(t *testing.T) {
	for name, answers := range map[string][]string{
		"create busy": {"create", tooMany, unavailable, internal}, "create timed out, and done": {"create", "done " + timeout},
		"create broken, and done": {"create", tooMany, "done " + internal}, "delete busy": {"delete", tooMany, conflict, unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t, true, running)
			for i, a := range answers[1:] {
				w.set("once-"+answers[0]+"-"+string(rune('0'+i)), a)
			}
			st, _, _, err := w.run([]string{"sh", "-c", "exit 5"}, nil)
			if err != nil || st.Code != 5 {
				t.Errorf("%+v, %v", st, err)
			}
			if list, _ := filepath.Glob(filepath.Join(w.dir, "once-*.given")); len(list) != len(answers)-1 {
				t.Errorf("%d answers were given of %d", len(list), len(answers)-1)
			}
		})
	}
}

// TestDoubleRefusedForGood: an answer about the request itself is not asked for again, and a pod of
// that name that was there before is not taken for this one.
func TestDoubleRefusedForGood(t *testing.T) {
	for name, answer := range map[string]string{"forbidden": forbidden, "exists": exists, "invalid": invalid} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t, true, running)
			w.set("once-create-0", answer)
			_, _, _, err := w.run([]string{"true"}, nil)
			if err == nil || !strings.Contains(err.Error(), strings.SplitN(answer, ":", 2)[0]) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "pod")); err == nil {
				t.Error("it was asked for again")
			}
		})
	}
}
