package policyset

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/config"
	"cloister/policy"
)

// Words are what a session adds to the common policy.
type Words struct {
	Mode  string          `json:"mode"`
	Allow []string        `json:"allow"`
	Deny  []string        `json:"deny"`
	Cedar []api.CedarFile `json:"cedar"`
	// Projects are the files of its project.
	Projects []api.ProjectFile `json:"projects"`
	// Answers are those that a person gave for this session.
	Answers []config.Decision `json:"answers"`
}

func WordsOf(r api.SessionRequest) Words {
	return Words{Mode: r.Mode, Allow: r.Allow, Deny: r.Deny, Cedar: r.Cedar, Projects: r.Projects}
}

func (w Words) empty() bool {
	return w.Mode == "" && len(w.Allow)+len(w.Deny)+len(w.Cedar)+len(w.Projects)+len(w.Answers) == 0
}

func derive(l *Book, w Words, remembered []policy.Rule) (*policy.Snapshot, error) {
	base, err := l.base, error(nil)
	if len(w.Cedar)+len(w.Projects) > 0 {
		in, err := l.InputIn("", w.Projects)
		if err != nil {
			return nil, err
		}
		in.Cedar = slices.Clone(in.Cedar)
		for _, f := range w.Cedar {
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
	extra, err := flagRules(w.Allow, w.Deny)
	if err != nil {
		return nil, err
	}
	extra = append(append(extra, remembered...), answerRules(w.Answers)...)
	return base.With(extra, mode)
}

func flagRules(allow, deny []string) ([]policy.Rule, error) {
	var rules []policy.Rule
	var errs []error
	for _, list := range []struct {
		effect policy.Effect
		flag   string
		words  []string
	}{{policy.Allow, "--allow", allow}, {policy.Deny, "--deny", deny}} {
		for _, word := range list.words {
			rule, err := flagRule(list.effect, list.flag, word)
			rules, errs = append(rules, rule), append(errs, err)
		}
	}
	return rules, errors.Join(errs...)
}

// CheckFlags reports whether the words of --allow and --deny can be rules, before
// anybody is asked for a session.
func CheckFlags(allow, deny []string) error {
	rules, err := flagRules(allow, deny)
	if err != nil {
		return err
	}
	_, err = policy.Compile(policy.Input{Rules: rules})
	return err
}

// flagRule reads DOMAIN[:PORT], where DOMAIN may be a wildcard, an address
// (an IPv6 one with a port stands in brackets) or a range.
func flagRule(effect policy.Effect, flag, word string) (policy.Rule, error) {
	r := policy.Rule{Effect: effect, Origin: policy.Origin{Source: flag}}
	bad := func(msg string) error {
		return &policy.SyntaxError{File: flag, Msg: fmt.Sprintf("%q %s", word, msg), Hint: "want DOMAIN[:PORT]"}
	}
	host, port, hasPort := splitFlag(word)
	if host == "" {
		return r, bad("names no destination")
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, bad("has no port from 1 to 65535 after its colon")
		}
		r.Ports = []uint16{uint16(n)}
	}
	if isRange(host) {
		r.CIDR = host
	} else {
		r.Domain = host
	}
	return r, nil
}

func splitFlag(word string) (host, port string, hasPort bool) {
	if _, err := netip.ParseAddr(word); err == nil || isRange(word) {
		return word, "", false
	}
	if inner, ok := strings.CutPrefix(word, "["); ok {
		host, rest, _ := strings.Cut(inner, "]")
		port, hasPort := strings.CutPrefix(rest, ":")
		return host, port, hasPort || rest != ""
	}
	if i := strings.LastIndexByte(word, ':'); i >= 0 {
		return word[:i], word[i+1:], true
	}
	return word, "", false
}

func isRange(word string) bool {
	_, err := netip.ParsePrefix(word)
	return err == nil
}
