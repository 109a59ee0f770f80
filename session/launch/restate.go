package launch

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"cloister/api"
	"cloister/policy"
	"cloister/sandbox"
	"cloister/session"
	"cloister/workspace"
)

// Restater compiles newer statements of the configuration for a running session of this plan: with
// what cannot change meanwhile, and what the session said for itself. It gives nil for those that
// say what is in force, and otherwise put, which is called when they are. The error is why they
// cannot be kept in it, in one line.
func (p *Plan) Restater(o Order, f Facts) func([]api.CedarFile) (*session.Statements, func(), error) {
	begun, now := *p, p
	first, firstErr := policy.FileStatements(p.cedar(f))
	return func(files []api.CedarFile) (*session.Statements, func(), error) {
		f := f
		f.Cedar = nil
		for _, c := range files {
			f.Cedar = append(f.Cedar, policy.CedarFile{Name: c.Name, Text: []byte(c.Text)})
		}
		next := &Plan{Judge: begun.Judge, Cedar: begun.Cedar, found: begun.found}
		next.View.Overlay, next.View.Expose = begun.View.Overlay, begun.View.Expose
		read, err := policy.FileStatements(next.cedar(f))
		if err = errors.Join(err, firstErr); err != nil {
			return nil, nil, fmt.Errorf("read policy: %w", err)
		}
		o := o
		o.Accept = stillMeant(o.Accept, first, read)
		list, err := next.statements(o, f)
		if err != nil {
			return nil, nil, err
		}
		next.keep(o, f, list)
		if err := next.unkept(o, list); err != nil {
			return nil, nil, err
		}
		if sameStatements(next, now) {
			return nil, nil, nil
		}
		if begun.Judge == nil {
			return nil, nil, errUnjudged
		}
		for _, c := range begun.View.Closed {
			if !closes(next.View.Closed, c.Path, c.Write) {
				return nil, nil, fmt.Errorf("%s stays closed in its view, by %s: start it anew", c.Path, c.Rule)
			}
		}
		if !reflect.DeepEqual(patterns(next.Watched.Rules), patterns(begun.Watched.Rules)) {
			return nil, nil, errPatterns
		}
		s := &session.Statements{Judged: slices.Clone(next.Judged), Permits: next.Permits, Watched: next.Watched}
		// What the view has covered is named by what lies below, and all else as the session sees it.
		for i, j := range s.Judged {
			s.Judged[i].Covered = j.Covered && closes(begun.View.Closed, string(j.Path), true)
		}
		return s, func() { now = next }, nil
	}
}

// stillMeant leaves out the words of places at which another statement stands than the one that was accepted.
func stillMeant(words []string, first, now []policy.Statement) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		is := func(st policy.Statement) bool { return strings.TrimPrefix(word, "residue:") == st.Residue() }
		i, was := slices.IndexFunc(now, is), slices.IndexFunc(first, is)
		if i < 0 || strings.TrimPrefix(now[i].Rule, now[i].Origin.File+"#") == now[i].Rule {
			return false // none, or a name, which is the person's
		}
		if was < 0 {
			return true
		}
		a, b := first[was], now[i]
		a.Origin = b.Origin
		return !reflect.DeepEqual(a, b)
	})
}

var errPatterns = errors.New("what patterns name is searched for once, and refused by a list that is made once: " +
	"start it anew")

// patterns are the rules that name files by patterns.
func patterns(rules []sandbox.Judged) []sandbox.Judged {
	return slices.DeleteFunc(slices.Clone(rules), func(j sandbox.Judged) bool { return !j.Glob })
}

var errUnjudged = errors.New("the kernel's judge does not rule it, and its view and lists are made once: start it anew")

// unkept says which statement the session's tier does not keep.
func (p *Plan) unkept(o Order, list []policy.Statement) error {
	for _, st := range list {
		kept := st.Hold > policy.InView || st.Hold != policy.Unkept && slices.Contains(p.Closed, st.Rule)
		if !kept && !slices.Contains(o.Accepted(), st.Residue()) {
			return fmt.Errorf("nothing keeps %s at %s in it: %s", st.Rule, st.Origin, st.Why)
		}
	}
	return nil
}

// closes reports whether a list closes a path, wholly unless it may be left readable.
func closes(list []workspace.Closed, at string, readable bool) bool {
	return slices.ContainsFunc(list, func(c workspace.Closed) bool {
		return path.Clean(c.Path) == path.Clean(at) && (readable || !c.Write)
	})
}

// sameStatements compares what is kept, whatever else the files say.
func sameStatements(a, b *Plan) bool {
	return reflect.DeepEqual(a.Judged, b.Judged) && reflect.DeepEqual(a.Permits, b.Permits) &&
		reflect.DeepEqual(a.Watched, b.Watched) && slices.EqualFunc(a.View.Closed, b.View.Closed, sameClosed)
}

// sameClosed compares what is closed, wherever the statement stands.
func sameClosed(a, b workspace.Closed) bool {
	a.Place = b.Place
	return a == b
}
