package policyset

import (
	"cloister/api"
	"cloister/policy"
)

// CheckNarrow refuses statements that do more than forbid, and too many of them: what a
// session is given while it lives can only take away.
func CheckNarrow(files []api.CedarFile) error {
	var in policy.Input
	size := 0
	for _, f := range files {
		size += len(f.Text)
		in.Cedar = append(in.Cedar, policy.CedarFile{Name: f.Name, Text: []byte(f.Text)})
	}
	if size > api.MaxNarrow {
		return api.BadRequest("narrow session: more than %d bytes of statements", api.MaxNarrow)
	}
	s, err := policy.Compile(in)
	if err != nil {
		return api.BadRequest("narrow session: %v", err)
	}
	for _, st := range s.Statements() {
		if st.Effect != policy.Deny || st.Hold != policy.Kept {
			return api.BadRequest("narrow session: %s: want statements that forbid what the guardian decides", st.Origin)
		}
	}
	return nil
}
