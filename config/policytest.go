package config

import "cloister/internal/source"

// PolicyTest is one question with the answer that a person expects, for
// `cloister policy test`.
type PolicyTest struct {
	Name    string `json:"name"`
	Connect string `json:"connect"` // HOST[:PORT], 443 unless said; or
	Request string `json:"request"` // METHOD URL
	// Headers are those of a request.
	Headers map[string]string `json:"headers"`
	Want    Wanted            `json:"want"`
	Place   source.Position   `json:"-"`
}

// Wanted is the expected effect.
type Wanted string

func (Wanted) words() []string { return []string{"allow", "ask", "deny"} }

// ParsePolicyTests reads a file of the form
//
//	tests:
//	  - {name: the API is reachable, connect: "api.example.com:443", want: allow}
//	  - {request: "GET https://api.example.com/repos", want: allow}
//
// They are checked here only for being there: a test may ask on purpose what
// becomes of a destination that is none. No test at all is an error, because a
// check that checks nothing would pass.
func ParsePolicyTests(name string, text []byte) ([]PolicyTest, error) {
	var f struct {
		Tests []PolicyTest `json:"tests"`
	}
	r := newReader(name)
	r.decode(text, &f)
	if len(r.problems) == 0 && len(f.Tests) == 0 {
		r.problem(source.Position{}, "", "holds no tests")
	}
	for i := range f.Tests {
		t := &f.Tests[i]
		if t.Place.Line == 0 {
			continue // said already
		}
		if (t.Connect == "") == (t.Request == "") {
			r.problem(t.Place, "", "%s: a test has connect or request", at("tests", i))
		}
		if t.Request == "" && len(t.Headers) > 0 {
			r.problem(t.Place, "write request: GET https://HOST/PATH", "%s: a connection has no headers", at("tests", i))
		}
		if t.Want == "" {
			r.problem(t.Place, "write want: allow, ask or deny", "%s: want is missing", at("tests", i))
		}
		if t.Name == "" {
			t.Name = t.Connect + t.Request
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return f.Tests, nil
}
