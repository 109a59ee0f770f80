// Package passed suggests rules for what sessions were let do in the modes record and shadow:
// the smallest list that would allow it in mode enforce.
//
// The promise: what a project did is held against the policy that the project has, its own
// files included; each destination and request is looked at once, however often it passed.
//
// It reads no record and changes no policy; what was opened and executed is policyset/learned's.
//
// Most readers want [Seen].
package passed

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/authority"
	"cloister/policy"
	"cloister/policy/suggest"
	"cloister/policyset"
)

// Seen is what passed, of each project. Its zero value is nothing.
type Seen struct {
	projects map[string][]suggest.Seen
	at       map[string]int // the index of what is there, by project and subject
}

// Empty reports whether nothing passed.
func (s *Seen) Empty() bool { return len(s.projects) == 0 }

// Add notes an event of the record, if it is a connection or a request that was let through.
func (s *Seen) Add(e audit.Line) {
	if e.Verdict != policy.Allow.String() || e.Kind != audit.NetConnect && e.Kind != audit.HTTPRequest ||
		e.Action == "close" || e.Action == "response" {
		return
	}
	to, err := authority.ParseHostPort(net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), e.Port)
	if err != nil {
		return // shortened by the record, and never that of a destination that was reached
	}
	one := suggest.Seen{To: to, Count: 1}
	if e.Kind == audit.HTTPRequest {
		one.Method = e.Method
		one.Path, _, _ = strings.Cut(e.Path, "?")
	}
	if s.projects == nil {
		s.projects, s.at = map[string][]suggest.Seen{}, map[string]int{}
	}
	key := e.Project + "\x00" + one.Method + " " + to.String() + one.Path
	if i, ok := s.at[key]; ok {
		s.projects[e.Project][i].Count++
		return
	}
	s.at[key] = len(s.projects[e.Project])
	s.projects[e.Project] = append(s.projects[e.Project], one)
}

// Suggest holds what each project did against the policy that it has, by the files that it
// has: against the common one where these are wrong, which bad is given, so that the others
// are answered. whole asks for a policy that allows nothing else.
func (s *Seen) Suggest(l *policyset.Set, whole bool, files func(project string) ([]api.ProjectFile, error),
	bad func(project string, err error)) (suggest.Answer, error) {
	var rules []suggest.Rule
	var left []suggest.Left
	for _, project := range slices.Sorted(maps.Keys(s.projects)) {
		in := l.Input()
		own, err := files(project)
		if err == nil {
			in, err = l.InputIn(project, own)
		}
		if err != nil {
			bad(project, err)
			in = l.Input()
		}
		if whole {
			in.Rules = slices.DeleteFunc(in.Rules, func(r policy.Rule) bool { return r.Effect != policy.Deny })
		}
		more, over, err := suggest.Rules(in, s.projects[project])
		if err != nil {
			return suggest.Answer{}, err
		}
		rules, left = append(rules, more...), append(left, over...)
	}
	return suggest.AnswerOf(suggest.Merge(rules), left), nil
}
