package tally_test

import (
	"os"
	"strings"
	"testing"

	"cloister/script/check/tally"
)

func stream(t *testing.T, as, pkg, events string) *tally.Tally {
	t.Helper()
	count := &tally.Tally{As: as, Pkg: pkg, MaySkip: func(_, test string) bool { return test == "cloister/excused.TestRealCargo" }}
	for _, piece := range strings.SplitAfter(events, ",") { // as it may arrive
		if _, err := count.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	return count
}

func TestTally(t *testing.T) {
	const pass = `{"Action":"pass","Test":"TestA"}` + "\n"
	const skip = `{"Action":"output","Test":"TestRealCargo","Output":"no cargo\n"}` + "\n" + `{"Action":"skip","Test":"TestRealCargo"}` + "\n"
	for name, c := range map[string]struct {
		pkg, events    string
		err            error
		passed, failed int
		says           string
	}{
		"passed":              {"cloister/a", pass + `{"Action":"pass"}` + "\n", nil, 1, 0, ""},
		"a subtest":           {"cloister/a", `{"Action":"pass","Test":"TestA/b"}` + "\n" + pass, nil, 1, 0, ""},
		"failed":              {"cloister/a", `{"Action":"fail","Test":"TestA"}` + "\n" + `{"Action":"fail"}` + "\n", os.ErrInvalid, 0, 1, "FAIL cloister/a.TestA"},
		"crashed":             {"cloister/a", pass + `{"Action":"output","Output":"panic: no\n"}` + "\n" + `{"Action":"fail"}` + "\n", os.ErrInvalid, 1, 1, "panic: no"},
		"ended without words": {"cloister/a", pass, os.ErrInvalid, 1, 1, "invalid"},
		"nothing ran":         {"cloister/a", `{"Action":"pass"}` + "\n", nil, 0, 1, "no test was run"},
		"an unexcused skip":   {"cloister/a", skip, nil, 0, 1, "no cargo"},
		"an excused skip":     {"cloister/excused", skip, nil, 1, 0, ""},
		"a skipped subtest":   {"cloister/a", `{"Action":"skip","Test":"TestA/b"}` + "\n" + pass, nil, 1, 1, "SKIP cloister/a.TestA/b"},
		"not an event":        {"cloister/a", "killed\n" + pass, nil, 1, 0, "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			count := stream(t, "root", c.pkg, c.events)
			count.End(c.err)
			if count.Passed != c.passed || count.Failed != c.failed || !strings.Contains(count.Report.String(), c.says) {
				t.Errorf("%d passed, %d failed, %q", count.Passed, count.Failed, count.Report.String())
			}
		})
	}
}
