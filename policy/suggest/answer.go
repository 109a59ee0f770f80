package suggest

// Answer is what Rules found, as JSON has it.
type Answer struct {
	Rules []AnswerRule `json:"rules"`
	// Left is what passed and no further allow rule would allow.
	Left []AnswerLeft `json:"left"`
}

// AnswerRule is a rule to add.
type AnswerRule struct {
	Domain  string   `json:"domain,omitempty"`
	CIDR    string   `json:"cidr,omitempty"`
	Ports   []uint16 `json:"ports,omitempty"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Count   int      `json:"count"`
}

// AnswerLeft is what no further allow rule would allow.
type AnswerLeft struct {
	Destination string `json:"destination"`
	Method      string `json:"method,omitempty"`
	Path        string `json:"path,omitempty"`
	Effect      string `json:"effect"`
	Reason      string `json:"reason"`
	Count       int    `json:"count"`
}

// AnswerOf puts rules, and what they leave over, into words.
func AnswerOf(rules []Rule, left []Left) Answer {
	x := Answer{Rules: []AnswerRule{}, Left: []AnswerLeft{}}
	for _, r := range rules {
		x.Rules = append(x.Rules, AnswerRule{Domain: r.Domain, CIDR: r.CIDR, Ports: r.Ports, Methods: r.Methods,
			Paths: r.Paths, Count: r.Count})
	}
	for _, l := range left {
		x.Left = append(x.Left, AnswerLeft{Destination: l.To.String(), Method: l.Method, Path: l.Path,
			Effect: l.Effect.String(), Reason: l.Reason, Count: l.Count})
	}
	return x
}
