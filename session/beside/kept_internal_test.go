package beside

import (
	"testing"

	"cloister/api"
	"cloister/session"
)

// What an agent's view keeps of statements about files no service's view keeps, and none says that it does.
func TestNoWordForAnotherView(t *testing.T) {
	for name, c := range map[string]struct {
		reports bool
		says    int
	}{"kept": {false, 0}, "only reported": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			log, err := openJournal(t.TempDir() + "/log")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = log.close() }()
			s := &Set{p: &Plan{}}
			agent := &session.Shim{Request: api.SessionRequest{Closed: []string{"no-secret"}, Reports: c.reports}}
			got := s.shim(&running{member: &member{}, log: log}, agent, nil, nil)
			if len(got.Request.Closed) != c.says || got.Request.Reports != c.reports {
				t.Errorf("said to be kept: %q, by a view that closes %+v", got.Request.Closed, got.View.Closed)
			}
		})
	}
}
