package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"cloister/internal/source"
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
}

// Residue is the word with which a person accepts that a statement is not kept.
func (s *Statement) Residue() string {
	if strings.HasPrefix(s.Rule, s.Origin.File+"#") {
		return "policy:" + path.Base(s.Rule)
	}
	return "policy:" + s.Rule
}

// ClosedPath is a path that a statement forbids to open.
type ClosedPath struct {
	Path  string // absolute and clean
	Dir   bool   // with all below it
	Write bool   // reading stays
	Exec  bool   // reading and writing stay
}

// Statements are those of the Cedar files, in their order.
func (s *Snapshot) Statements() []Statement {
	if s == nil {
		return nil
	}
	return slices.Clone(s.statements)
}

// FileStatements are those of files that speak of files and programs, which a
// view must keep: for whoever builds one, before there is a Snapshot. Files that
// speak of neither cost a search for four words.
func FileStatements(files []CedarFile) ([]Statement, error) {
	if !slices.ContainsFunc(files, func(f CedarFile) bool {
		text := string(f.Text)
		return strings.Contains(text, "FileOpen") || strings.Contains(text, "ProcessExec") ||
			strings.Contains(text, "Dir::") || strings.Contains(text, "File::")
	}) {
		return nil, nil
	}
	s, err := Compile(Input{Cedar: files})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(s.statements, func(st Statement) bool {
		return !slices.ContainsFunc(st.Actions, isFileAction)
	}), nil
}

const (
	actionOpen      = "FileOpen"
	actionOpenRead  = "FileOpenReadOnly"
	actionOpenWrite = "FileOpenReadWrite"
	actionExec      = "ProcessExec"
	actionRewrite   = "HttpRewrite"
	actionMCP       = "McpCall"
	actionSecret    = "SecretUse"
)

func isFileAction(name string) bool {
	return name == actionOpen || name == actionOpenRead || name == actionOpenWrite || name == actionExec
}

// state writes a policy down as a statement; held is what was found to keep each
// of its actions.
func (l *loader) state(tree *xast.Policy, t tier, held []holding) {
	st := Statement{Rule: l.name, Origin: l.origin, Effect: t.effect(), Hold: Kept}
	uids, _ := resourcesOf(tree)
	for _, u := range uids {
		st.Resources = append(st.Resources, u.String())
	}
	var by, why []string
	for _, h := range held {
		st.Actions = append(st.Actions, h.action)
		st.Hold = min(st.Hold, h.hold)
		st.Closed = append(st.Closed, h.closed...)
		if h.by != "" && !slices.Contains(by, h.by) {
			by = append(by, h.by)
		}
		if h.why != "" && !slices.Contains(why, h.why) {
			why = append(why, h.why)
		}
	}
	st.By, st.Why = strings.Join(by, "; "), strings.Join(why, "; ")
	st.Closed = slices.Compact(st.Closed)
	l.set.statements = append(l.set.statements, st)
}

// A holding is what keeps one action of a policy.
type holding struct {
	action  string
	hold    Hold
	by, why string
	closed  []ClosedPath
}

func kept(action, by string) holding    { return holding{action: action, hold: Kept, by: by} }
func unkept(action, why string) holding { return holding{action: action, why: why} }

// holdFiles finds what keeps a policy about files or programs. The view is made
// before anything runs, so only what names its paths outright can be in it.
func (l *loader) holdFiles(tree *xast.Policy, t tier, action string) holding {
	uids, plain := resourcesOf(tree)
	_, anyone := tree.Principal.(xast.ScopeTypeAll)
	everything := plain && anyone && (len(uids) == 0 || slices.Contains(uids, types.NewEntityUID("Dir", "/")))
	switch {
	case t == tierAsk:
		return unkept(action, "no person is asked about files and programs: the view is made before anything runs")
	case t != tierForbid && everything:
		return kept(action, "nothing is refused by it; a permit shows nothing more of the host either: --expose does")
	case t != tierForbid:
		return unkept(action, "a permit of files takes nothing away: what it does not name stays as the view shows it, and "+
			"--expose shows more")
	case !plain:
		return unkept(action, "only a policy that names its paths outright can be kept, as resource == or resource in, "+
			"without another condition")
	case !anyone:
		return unkept(action, "a policy about files for one session, project or agent cannot be kept")
	case everything:
		return unkept(action, "a cloister without files to open is none")
	}
	h := holding{action: action, hold: InView, by: "the view: what is named is shown empty"}
	if action == actionOpenWrite {
		h.by = "the view: what is named is read-only"
	}
	for _, u := range uids {
		name := string(u.ID)
		clean := path.Clean(name)
		switch {
		case u.Type != "Dir" && u.Type != "File":
			continue
		case !path.IsAbs(name) || strings.ContainsAny(name, "*?[\x00"):
			return unkept(action, fmt.Sprintf("%q is not an absolute path without wildcards", name))
		case action == actionExec && u.Type == "Dir":
			h.hold, h.by = InKernel, "the kernel: nothing in it is executed or mapped as code"
			h.why = fmt.Sprintf("programs in the folder %s cannot be kept from running while its files are "+
				"shown; name the programs as File::", clean)
		}
		h.closed = append(h.closed, ClosedPath{Path: clean, Dir: u.Type == "Dir", Write: action == actionOpenWrite})
	}
	for i := range h.closed {
		h.closed[i].Exec = h.hold == InKernel
	}
	if len(h.closed) == 0 {
		return unkept(action, "it names no file or folder")
	}
	return h
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
