package policyset

import (
	"slices"

	"cloister/api"
	"cloister/config"
	"cloister/policy"
	"cloister/policy/destination"
)

// SessionRules are the rules that a session has beside those of the files.
type SessionRules struct {
	Mode  string          `json:"mode"`
	Allow []string        `json:"allow"`
	Deny  []string        `json:"deny"`
	Cedar []api.CedarFile `json:"cedar"`
	// Narrow are statements that forbid, and may be replaced while it lives.
	Narrow []api.CedarFile `json:"narrow,omitempty"`
	// Projects are the files of its project.
	Projects []api.ProjectFile `json:"projects"`
	// Answers are those that a person gave for this session.
	Answers []config.Decision `json:"answers"`
}

func SessionRulesOf(r api.SessionRequest) SessionRules {
	return SessionRules{Mode: r.Mode, Allow: r.Allow, Deny: r.Deny, Cedar: r.Cedar, Narrow: r.Narrow, Projects: r.Projects}
}

func (w SessionRules) empty() bool {
	return w.Mode == "" && len(w.Allow)+len(w.Deny)+len(w.Cedar)+len(w.Narrow)+len(w.Projects)+len(w.Answers) == 0
}

func derive(l *Set, w SessionRules, remembered []policy.Rule) (*policy.Snapshot, error) {
	base, err := l.base, error(nil)
	if len(w.Cedar)+len(w.Narrow)+len(w.Projects) > 0 {
		in, err := l.InputIn("", w.Projects)
		if err != nil {
			return nil, err
		}
		in.Cedar = slices.Clone(in.Cedar)
		for _, f := range slices.Concat(w.Cedar, w.Narrow) {
			in.Cedar = append(in.Cedar, policy.CedarFile{Name: f.Name, Text: []byte(f.Text)})
		}
		if base, err = policy.Compile(in); err != nil {
			return nil, err
		}
	}
	var mode *policy.Mode
	if w.Mode != "" {
		m, err := policy.ParseMode(w.Mode)
		if err != nil {
			return nil, err
		}
		mode = &m
	}
	extra, err := destination.Rules(w.Allow, w.Deny)
	if err != nil {
		return nil, err
	}
	extra = append(append(extra, remembered...), answerRules(w.Answers)...)
	return base.With(extra, mode)
}
