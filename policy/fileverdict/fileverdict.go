// Package fileverdict decides what becomes of a file that is opened, or of a program that is
// executed, by the statements of a policy.
//
// The promise: it says what the view and the lists of a native session in mode enforce keep,
// where no kernel judges: a forbid comes first, and where some permit speaks of opening or of
// executing, what no permit names is refused. It is cautious where the means are: whatever a
// forbid closes is shown empty, so that it is neither read nor executed.
//
// It looks at no file system: links, and whether a place can be written at all, are the
// view's. A statement that nothing keeps has no part in it.
//
// Most readers want [Of].
package fileverdict

import (
	"path"
	"slices"

	"cloister/internal/pathglob"
	"cloister/internal/realpath"
	"cloister/internal/source"
	"cloister/policy"
	"cloister/policy/filerule"
)

// Use is what is done with a path.
type Use uint8

// The uses. To write is also to create, remove and rename.
const (
	Read Use = iota + 1
	Write
	Execute
)

// Words are the uses as a person writes them.
func Words() []string { return []string{"read", "write", "execute"} }

func (u Use) String() string { return Words()[u-1] }

// Parse reads a use; it reports whether there is such a one.
func Parse(word string) (Use, bool) {
	for i, w := range Words() {
		if w == word {
			return Use(i + 1), true
		}
	}
	return 0, false
}

// Outcome is what becomes of one use of a path.
type Outcome struct {
	Effect policy.Effect
	Rule   string // what decided; empty where no statement speaks of it
	Origin source.Position
	Reason string
}

// Lists are what permits come to.
type Lists struct {
	// Opens says that nothing is opened that no permit names, and Programs that nothing is
	// executed so.
	Opens, Programs bool
	Permitted       []Permitted
}

// Permitted is a path of a list, with the statement that permits it.
type Permitted struct {
	policy.PermittedPath
	Statement *policy.Statement
}

// Of decides about one use of a path. Patterns of a project are looked at where [In] gave them its
// folder.
func Of(list []policy.Statement, at string, use Use) Outcome {
	at = path.Clean(at)
	for _, own := range own() {
		if realpath.Inside(at, own) {
			return Outcome{Effect: policy.Allow, Reason: "it is the box's own"}
		}
	}
	for i := range list {
		if closes(&list[i], at, use) && !list[i].Asks() {
			return by(&list[i], policy.Deny, "a forbid names it, or a folder that it is in")
		}
	}
	for i := range list {
		switch {
		case !closes(&list[i], at, use):
		case asks(&list[i], at, use):
			return by(&list[i], policy.Ask, "a person is asked about it")
		default:
			return by(&list[i], policy.Deny, "a statement that asks closes it, and asks about another use")
		}
	}
	l := ListsOf(list)
	listed, what := l.Opens, "opened"
	if use == Execute {
		listed, what = l.Programs, "executed"
	}
	if use == Execute && l.Opens && l.find(at, Read) == nil {
		return Outcome{Effect: policy.Deny, Reason: "no permit lets it be read, and the kernel reads what it executes"}
	}
	if !listed {
		return Outcome{Effect: policy.Allow, Reason: "no permit speaks of what may be " + what + ": all that the view shows"}
	}
	if st := l.find(at, use); st != nil {
		return by(st, policy.Allow, "a permit names it, or a folder that it is in")
	}
	return Outcome{Effect: policy.Deny, Reason: "permits say what may be " + what + ", and none names it"}
}

// ByPattern reports whether the statement of a rule forbids what a pattern names.
func ByPattern(list []policy.Statement, rule string) bool {
	glob := func(c policy.ClosedPath) bool { return c.Glob }
	return slices.ContainsFunc(list, func(st policy.Statement) bool {
		return rule != "" && st.Rule == rule && slices.ContainsFunc(st.Closed, glob)
	})
}

// In gives the patterns of a project its folder.
func In(list []policy.Statement, project string) []policy.Statement {
	list = slices.Clone(list)
	for i := range list {
		st := &list[i]
		st.Closed, st.Permitted = slices.Clone(st.Closed), slices.Clone(st.Permitted)
		for j := range st.Closed {
			st.Closed[j].In = project
		}
		for j := range st.Permitted {
			st.Permitted[j].In = project
		}
	}
	return list
}

// Hides tells what of a project, by its path below it, a view of these statements shows empty.
func Hides(list []policy.Statement, project string) func(rel string) bool {
	list = In(list, project)
	return func(rel string) bool {
		at := path.Join(project, rel)
		return slices.ContainsFunc(list, func(st policy.Statement) bool { return closes(&st, at, Read) })
	}
}

func by(st *policy.Statement, effect policy.Effect, reason string) Outcome {
	return Outcome{Effect: effect, Rule: st.Rule, Origin: st.Origin, Reason: reason}
}

// own are files of the box itself, as sandbox.Own has them: a policy knows no sandbox.
func own() []string { return []string{"/dev", "/proc", "/.cloister"} }

// closes reports whether a statement takes a use of a path away, by what is shown.
func closes(st *policy.Statement, at string, use Use) bool {
	if st.Hold != policy.InView {
		return false
	}
	for _, c := range st.Closed {
		names := realpath.Inside(at, c.Path)
		if c.Glob {
			names = matches(c.Path, c.In, at)
		}
		if names && (use == Write || !c.Write) {
			return true
		}
	}
	return false
}

// asks reports whether a person is asked about a use of a path. A program that may not be read is not executed either.
func asks(st *policy.Statement, at string, use Use) bool {
	return slices.ContainsFunc(st.Closed, func(c policy.ClosedPath) bool {
		wants := map[Use]bool{Read: c.Ask.Read, Write: c.Ask.Write, Execute: c.Ask.Exec}[use]
		return wants && (c.Path == at || c.Glob && matches(c.Path, c.In, at))
	})
}

// Names reports whether a permitted path is a pattern that names a path.
func Names(p policy.PermittedPath, at string) bool { return p.Glob && matches(p.Path, p.In, at) }

// matches reports whether a pattern names a path; one of a project does not where none was named.
func matches(pattern, in, at string) bool {
	p, err := pathglob.Parse(pattern)
	return err == nil && (p.Whole() || in != "") && p.In(in).Match(at)
}

// Unkept is why a statement that speaks of a use has no part in a verdict; empty where it has one,
// or speaks of something else.
func Unkept(st policy.Statement, use Use) string {
	speaks := slices.ContainsFunc(st.Actions, func(action string) bool {
		return filerule.Is(action) && (action == filerule.Execute) == (use == Execute) &&
			(use != Read || action != filerule.OpenWrite) && (use != Write || action != filerule.OpenRead)
	})
	if speaks && (st.Hold == policy.Unkept || st.Hold == policy.InKernel) {
		return st.Why
	}
	return ""
}

// ListsOf are the lists that permits make together. Of what may be used everywhere there is none.
func ListsOf(list []policy.Statement) Lists {
	var l Lists
	for i := range list {
		for _, p := range list[i].Permitted {
			l.Opens, l.Programs = l.Opens || !p.Exec, l.Programs || p.Exec
			l.Permitted = append(l.Permitted, Permitted{p, &list[i]})
		}
	}
	for _, p := range l.Permitted {
		if p.Path == "/" && p.Dir {
			l.Opens = l.Opens && !(p.Read && p.Write)
			l.Programs = l.Programs && !p.Exec
		}
	}
	if !l.Opens && !l.Programs {
		l.Permitted = nil
	}
	return l
}

// find is a statement that permits a use of a path.
func (l Lists) find(at string, use Use) *policy.Statement {
	for _, p := range l.Permitted {
		right := map[Use]bool{Read: p.Read || p.Exec && l.Programs, Write: p.Write, Execute: p.Exec}[use]
		if right && (at == p.Path || p.Dir && realpath.Inside(at, p.Path) || p.Glob && matches(p.Path, p.In, at)) {
			return p.Statement
		}
	}
	return nil
}
