package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"cloister/internal/source"
	"cloister/policy/filerule"
)

// Hold says how well a statement of a Cedar file is kept. Its zero value is
// Unkept.
type Hold uint8

// The holds, from nothing to all of it.
const (
	// Unkept is a residue: nothing keeps what the statement says, so a person
	// must accept that by its name.
	Unkept Hold = iota
	// InKernel is kept by the kernel's own judge (kernel/lsm), where there is one. Whoever
	// has it judge must say so, or it is Unkept.
	InKernel
	// InList is kept by a list of what alone is permitted (Landlock, or the kernel's judge).
	// Whoever builds that must say so, or it is Unkept.
	InList
	// InView is kept by what a cloister shows of the host's files. Whoever
	// builds that must say so, or it is Unkept.
	InView
	// InPart is kept where Why says, and not elsewhere.
	InPart
	// Kept is kept by the guardian.
	Kept
)

func (h Hold) String() string {
	switch h {
	case Unkept:
		return "residue"
	case InKernel:
		return "kernel"
	case InList:
		return "list"
	case InView:
		return "view"
	case InPart:
		return "partial"
	case Kept:
		return "enforced"
	}
	return fmt.Sprintf("hold(%d)", h)
}

// A Statement is one policy of a Cedar file with what keeps it on this host.
type Statement struct {
	// Rule is its @id, or FILE#N. It is also the name of the residue.
	Rule      string
	Origin    source.Position
	Effect    Effect
	Actions   []string
	Resources []string // as it names them; empty where a condition says which
	Hold      Hold
	By        string // what keeps it; empty where nothing does
	Why       string // why it is not kept, or only in part
	// Closed are the paths that the view, or the kernel, must keep from it.
	Closed []ClosedPath
	// Permitted are the paths that it, of all that its actions speak of, leaves to be used. Of a
	// permit that refuses nothing itself it is everything.
	Permitted []PermittedPath
}

// Asks reports whether a person is asked about what it closes.
func (s *Statement) Asks() bool {
	return slices.ContainsFunc(s.Closed, func(c ClosedPath) bool { return c.Ask.Any() })
}

// Residue is the word with which a person accepts that a statement is not kept.
func (s *Statement) Residue() string {
	if strings.HasPrefix(s.Rule, s.Origin.File+"#") {
		return "policy:" + path.Base(s.Rule)
	}
	return "policy:" + s.Rule
}

// ClosedPath is a path that a statement forbids to open.
type ClosedPath = filerule.Path

// PermittedPath is a path that a statement permits to use.
type PermittedPath = filerule.Permitted

// Statements are those of the Cedar files, in their order.
func (s *Snapshot) Statements() []Statement {
	if s == nil {
		return nil
	}
	return slices.Clone(s.statements)
}

// SpeaksOfFiles reports whether a file may have statements about files and programs.
func SpeaksOfFiles(f CedarFile) bool {
	text := string(f.Text)
	return strings.Contains(text, "FileOpen") || strings.Contains(text, "ProcessExec") ||
		strings.Contains(text, "Dir::") || strings.Contains(text, "File::")
}

// FileStatements are those of files that speak of files and programs, which a
// view must keep: for whoever builds one, before there is a Snapshot. Files that
// speak of neither cost a search for four words.
func FileStatements(files []CedarFile) ([]Statement, error) {
	if !slices.ContainsFunc(files, SpeaksOfFiles) {
		return nil, nil
	}
	s, err := Compile(Input{Cedar: files})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(s.statements, func(st Statement) bool {
		return !slices.ContainsFunc(st.Actions, filerule.Is)
	}), nil
}

const (
	actionRewrite = "HttpRewrite"
	actionMCP     = "McpCall"
	actionSecret  = "SecretUse"
)

// state writes a policy down as a statement; held is what was found to keep each
// of its actions.
func (l *loader) state(tree *xast.Policy, t tier, held []holding) {
	st := Statement{Rule: l.name, Origin: l.origin, Effect: t.effect(), Hold: Kept}
	uids, _ := resourcesOf(tree)
	for _, u := range uids {
		st.Resources = append(st.Resources, u.String())
	}
	var by, why []string
	writesAll := slices.ContainsFunc(held, func(h holding) bool {
		return slices.ContainsFunc(h.permitted, filerule.Permitted.WritesAll)
	})
	for _, h := range held {
		if writesAll && h.action == filerule.OpenRead {
			h.hold, h.by, h.why = Kept, "", "" // the same statement permits to write everything, too
		}
		st.Actions = append(st.Actions, h.action)
		st.Hold = min(st.Hold, h.hold)
		st.Closed = append(st.Closed, h.closed...)
		st.Permitted = append(st.Permitted, h.permitted...)
		if h.by != "" && !slices.Contains(by, h.by) {
			by = append(by, h.by)
		}
		if h.why != "" && !slices.Contains(why, h.why) {
			why = append(why, h.why)
		}
	}
	st.By, st.Why = strings.Join(by, "; "), strings.Join(why, "; ")
	st.Closed, st.Permitted = slices.Compact(st.Closed), slices.Compact(st.Permitted)
	l.set.statements = append(l.set.statements, st)
}

// A holding is what keeps one action of a policy.
type holding struct {
	action  string
	hold    Hold
	by, why string
	closed  []ClosedPath

	permitted []PermittedPath
}

func kept(action, by string) holding    { return holding{action: action, hold: Kept, by: by} }
func unkept(action, why string) holding { return holding{action: action, why: why} }

// holdFiles finds what keeps a policy about files or programs.
func (l *loader) holdFiles(tree *xast.Policy, t tier, action string) holding {
	uids, plain := resourcesOf(tree)
	_, anyone := tree.Principal.(xast.ScopeTypeAll)
	h := filerule.Of(filerule.Statement{
		Action: action, Forbids: t == tierForbid, Asks: t == tierAsk, Anyone: anyone, Plain: plain, Resources: uids,
	})
	hold := map[filerule.Means]Hold{filerule.Kernel: InKernel, filerule.List: InList, filerule.View: InView,
		filerule.Itself: Kept}
	return holding{action: action, hold: hold[h.Means], by: h.By, why: h.Why, closed: h.Closed, permitted: h.Permitted}
}

// resourcesOf are the resources that a policy names, where they are all it says:
// in its scope or in one condition, and in no other way.
func resourcesOf(tree *xast.Policy) ([]types.EntityUID, bool) {
	var uids []types.EntityUID
	switch sc := tree.Resource.(type) {
	case xast.ScopeTypeIn:
		uids = append(uids, sc.Entity)
	case xast.ScopeTypeEq:
		uids = append(uids, sc.Entity)
	case xast.ScopeTypeAll:
	default:
		return nil, false
	}
	switch {
	case len(tree.Conditions) == 0:
		return uids, true
	case len(tree.Conditions) > 1 || len(uids) > 0 || tree.Conditions[0].Condition != xast.ConditionWhen:
		return uids, false
	}
	return inEntities(tree.Conditions[0].Body)
}

// inEntities reads "resource in [...] || resource in [...]".
func inEntities(n xast.IsNode) ([]types.EntityUID, bool) {
	switch n := n.(type) {
	case xast.NodeTypeOr:
		left, ok := inEntities(n.Left)
		if !ok {
			return nil, false
		}
		right, ok := inEntities(n.Right)
		return append(left, right...), ok
	case xast.NodeTypeIn:
		if isVariable(n.Left, "resource") {
			return entities(n.Right)
		}
	default: // whatever else is no list of names
	}
	return nil, false
}
