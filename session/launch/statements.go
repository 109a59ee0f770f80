package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/config"
	"cloister/internal/hint"
	"cloister/internal/nearest"
	"cloister/policy"
	"cloister/policy/fileverdict"
	"cloister/sandbox"
	"cloister/sandbox/judge"
	"cloister/session/globs"
	"cloister/workspace"
)

// close puts into the view what Cedar files say of files and programs, and keeps the
// rules of those statements. It refuses an --accept of a statement that no file has.
func (p *Plan) close(o Order, f Facts) error {
	if err := o.checkStatements(p.cedar(f)); err != nil {
		return err
	}
	list, err := p.statements(o, f)
	if err != nil {
		return err
	}
	p.View.Root = string(f.Root.Dir)
	if len(list) > 0 || o.mode(f) != policy.Enforce.String() {
		p.load(o, f, list)
	}
	p.View.Unseen = f.Root.Dir == "" && (f.Root.ID != "" || f.Elsewhere)
	p.View.Judged = p.Judge != nil
	p.keep(o, f, list)
	return nil
}

// load has the kernel judge, where the driver can have it. Where the kernel cannot, the start goes on in
// another tier, and says so where a statement would be kept by the better one.
func (p *Plan) load(o Order, f Facts, list []policy.Statement) {
	var err error
	switch f.Isolation {
	case native:
		p.Judge, err = judge.Load()
	case inContainers:
		p.Judge, err = judge.LoadForEngine()
	}
	given := o.gave()
	kept := func(st policy.Statement) bool { return !given(&st) }
	if err != nil && slices.ContainsFunc(list, kept) {
		p.Notices = append(p.Notices, unjudged(f.Isolation, err))
	}
}

// inContainers is the level besides native whose sessions the kernel's judge can rule.
const inContainers = "docker"

// unjudged says in one line that the kernel does not judge, why, and what would have it do so.
func unjudged(isolation string, why error) string {
	instead := "the view and Landlock keep what they can of the statements about files and programs"
	if isolation != native {
		instead = "the view alone keeps what it can of the statements about files and programs"
	}
	text := "the kernel does not judge this session, and " + instead + ": " + why.Error()
	if u, ok := errors.AsType[*sandbox.Unsupported](why); ok {
		text = "the kernel does not judge this session, and " + instead + ": " + u.Reason
		if u.Fix != "" {
			text += "; to have it: " + u.Fix
		}
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// cedar are the files that say what is kept.
func (p *Plan) cedar(f Facts) []policy.CedarFile {
	files := slices.Clone(f.Cedar)
	for _, c := range p.Cedar {
		files = append(files, policy.CedarFile{Name: c.Name, Text: []byte(c.Text)})
	}
	return files
}

func (p *Plan) statements(o Order, f Facts) ([]policy.Statement, error) {
	list, err := policy.FileStatements(p.cedar(f))
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	if list, err = p.expand(list, f, o.gave()); err != nil {
		return nil, err
	}
	if err := bounded(list); err != nil {
		return nil, err
	}
	return list, p.digests(list, f, o.gave())
}

// mode is the one in which statements are kept.
func (o *Order) mode(f Facts) string {
	return cmp.Or(o.Mode, string(f.Config.Defaults.Mode), policy.Enforce.String())
}

// keep shares statements out among what keeps them.
func (p *Plan) keep(o Order, f Facts, list []policy.Statement) {
	// What the kernel itself can judge it judges besides what the view hides: other names
	// of the same object, and what no view could keep.
	mode := o.mode(f)
	watches, judged := config.Isolation(f.Isolation).Watches(), p.Judge != nil
	if f.Isolation == native || judged { // elsewhere the statement is a residue, which the guardian refuses
		permits, rules := permitted(f.looked(list), o.Accepted())
		p.Closed, p.Watched.Permits = append(p.Closed, rules...), permits
		if mode == policy.Enforce.String() {
			p.Permits = permits
		}
	}
	if (watches || judged) && mode != policy.Enforce.String() {
		p.watch(f.looked(list), mode == policy.Record.String())
		return
	}
	given := o.gave()
	p.Watched.Kept = true
	// A name may be that of several statements: one that is kept does not speak for one that is not.
	var unkept []string
	defer func() {
		p.Closed = slices.DeleteFunc(p.Closed, func(rule string) bool { return slices.Contains(unkept, rule) })
	}()
	for _, st := range list {
		if st.Asks() && (judged || !watches) {
			unkept = append(unkept, st.Rule)
			continue // nothing holds a call there: it is a residue, which the guardian refuses
		}
		switch {
		case judged && byDigest(st) && f.Isolation != native: // what it is was not looked at
		case judged:
			p.judge(st)
			if watches {
				p.byName(st, given)
			}
		case watches && !slices.Contains(o.Accepted(), st.Residue()):
			p.Watched.Rules = append(p.Watched.Rules, judgedOf(st)...)
		}
		if st.Hold == policy.InKernel && judged {
			p.Closed = append(p.Closed, st.Rule)
		}
		if st.Hold != policy.InView {
			continue
		}
		if byDigest(st) && f.Isolation != native {
			continue // what it is was not looked at
		}
		if !byPattern(st) || watches { // elsewhere nothing refuses what appears later
			p.Closed = append(p.Closed, st.Rule)
		}
		for _, c := range st.Closed {
			if c.Glob {
				continue
			}
			p.View.Closed = append(p.View.Closed, workspace.Closed{
				Path: c.Path, Dir: c.Dir, Write: c.Write, Rule: st.Rule, Place: st.Origin.String(),
				Residue: st.Residue(), Accepted: slices.Contains(o.Accepted(), st.Residue()),
				Read: c.Ask.Read && !given(&st), Change: c.Ask.Write && !given(&st), Exec: c.Ask.Exec && !given(&st),
			})
		}
	}
}

// Bounds of what statements name together. A path of the view is a mount, of which the kernel
// gives a cloister 100,000 (fs.mount-max), and a command that joins is given all of them again.
const (
	maxPaths     = 20_000
	maxPathBytes = 4 << 20
)

// bounded refuses statements that name more than a session keeps, at the first one too many.
func bounded(list []policy.Statement) error {
	paths, size := 0, 0
	for _, st := range list {
		paths += len(st.Closed) + len(st.Permitted)
		for _, c := range st.Closed {
			size += len(c.Path) + len(st.Rule) + describedPath
		}
		for _, c := range st.Permitted {
			size += 2 * (len(c.Path) + describedPath)
		}
		if paths > maxPaths || size > maxPathBytes {
			return hint.Usage("name the folders that they lie in, as Dir::", "%s: with this statement policies about files "+
				"and programs name %d paths in %d bytes; a session keeps %d in %d", st.Origin, paths, size, maxPaths, maxPathBytes)
		}
	}
	return nil
}

// describedPath is what a path takes besides itself where a session is described, in bytes.
const describedPath = 90

// permitted are the lists that permits make, and their rules. A permit that a person gave up
// by name permits nothing, and where all of them are given up there is no list.
func permitted(list []policy.Statement, accepted []string) (sandbox.Permits, []string) {
	list = slices.DeleteFunc(slices.Clone(list), func(st policy.Statement) bool {
		return slices.Contains(accepted, st.Residue())
	})
	var rules []string
	for _, st := range list {
		if st.Hold == policy.InList {
			rules = append(rules, st.Rule)
		}
	}
	l := fileverdict.ListsOf(list)
	out := sandbox.Permits{Opens: l.Opens, Programs: l.Programs}
	for _, p := range l.Permitted {
		if p.Glob {
			continue // what it names is there beside it
		}
		out.List = append(out.List, sandbox.Permit{
			Path: sandbox.GuestPath(p.Path), Dir: p.Dir, Read: p.Read, Write: p.Write, Exec: p.Exec,
		})
	}
	return out, rules
}

// looked are the statements without those whose programs' digests are not looked at here.
func (f Facts) looked(list []policy.Statement) []policy.Statement {
	if f.Isolation == native {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(st policy.Statement) bool {
		return byDigest(st) ||
			slices.ContainsFunc(st.Permitted, func(one policy.PermittedPath) bool { return one.Digest != "" })
	})
}

// judge has the kernel keep a statement, of patterns what they name now.
func (p *Plan) judge(st policy.Statement) {
	p.Judged = append(p.Judged, slices.DeleteFunc(judgedOf(st), func(j sandbox.Judged) bool { return j.Glob })...)
}

// byName has what patterns name later refused by its name, beside the kernel's judge.
func (p *Plan) byName(st policy.Statement, given func(*policy.Statement) bool) {
	if given(&st) {
		return
	}
	list := slices.DeleteFunc(judgedOf(st), func(j sandbox.Judged) bool { return !j.Glob })
	p.Watched.Rules = append(p.Watched.Rules, list...)
	p.Watched.ByName = p.Watched.ByName || len(list) > 0
}

// byPattern reports whether a statement forbids what a pattern names.
func byPattern(st policy.Statement) bool {
	return slices.ContainsFunc(st.Closed, func(c policy.ClosedPath) bool { return c.Glob })
}

// gave tells which statements a person gave up by name.
func (o *Order) gave() func(*policy.Statement) bool {
	accepted := o.Accepted()
	return func(st *policy.Statement) bool { return slices.Contains(accepted, st.Residue()) }
}

// expand finds what patterns name, once: those that were searched for stay as they were found.
func (p *Plan) expand(list []policy.Statement, f Facts, given func(*policy.Statement) bool) ([]policy.Statement,
	error) {
	if p.found == nil {
		p.found = globs.Found{}
	}
	at := globs.Places{Project: f.Project, System: f.Root.Dir == "", Found: p.found}
	for _, e := range p.View.Expose {
		at.Shown = append(at.Shown, e.Path)
	}
	for i := range list {
		if st := &list[i]; p.View.Overlay && byPattern(*st) && !given(st) {
			return nil, hint.Usage("use --workspace live, change it, or go on without it: --accept residue:"+st.Residue(),
				"%s: what an overlay workspace holds besides the project's files is not searched for what a pattern names",
				st.Origin)
		}
	}
	return globs.Expand(list, at, given)
}

// watch has statements reported of and not kept: the mode is shadow or record, in which
// everything is let pass.
func (p *Plan) watch(list []policy.Statement, all bool) {
	p.Watched.Programs, p.Watched.All, p.reports = true, all, true
	for _, st := range list {
		if st.Hold == policy.InView || st.Hold == policy.InKernel {
			p.Closed = append(p.Closed, st.Rule)
			p.Watched.Rules = append(p.Watched.Rules, judgedOf(st)...)
		}
	}
	if len(p.Closed) > 0 {
		p.Notices = append(p.Notices, "this mode keeps no statement about files and programs, and records what they forbid: "+
			strings.Join(p.Closed, ", "))
	}
}

// judgedOf are the objects of a statement that the view or the kernel keeps.
func judgedOf(st policy.Statement) []sandbox.Judged {
	if st.Hold != policy.InView && st.Hold != policy.InKernel {
		return nil
	}
	var out []sandbox.Judged
	for _, c := range st.Closed {
		out = append(out, sandbox.Judged{
			Path: sandbox.GuestPath(c.Path), Rule: st.Rule, Covered: st.Hold == policy.InView, Glob: c.Glob,
			In: sandbox.GuestPath(c.In), Asked: c.Ask.Any(),
			Read: !c.Write && !c.Exec, Write: !c.Exec, Exec: !c.Write,
		})
	}
	return out
}

// checkStatements compares each --accept residue:policy:… with the statements there are.
func (o *Order) checkStatements(files []policy.CedarFile) error {
	words := slices.DeleteFunc(o.Accepted(), func(w string) bool { return !strings.HasPrefix(w, residuePolicy) })
	if len(words) == 0 {
		return nil
	}
	s, err := policy.Compile(policy.Input{Cedar: files})
	if err != nil {
		return fmt.Errorf("read policy: %w", err)
	}
	var known []string
	at := map[string]string{}
	for _, st := range s.Statements() {
		w := st.Residue()
		if first, twice := at[w]; twice && slices.Contains(words, w) {
			return hint.Usage("give one of them an @id", "%s: --accept %q is the word of two statements, at %s and at %s",
				o.Verb, "residue:"+w, first, st.Origin)
		}
		known, at[w] = append(known, w), st.Origin.String()
	}
	for _, w := range words {
		if slices.Contains(known, w) {
			continue
		}
		advice := "cloister policy check tells the statements that nothing keeps, with their words"
		if near := nearest.Word(w, known); near != "" {
			advice = "did you mean --accept residue:" + near + "?"
		}
		return hint.Usage(advice, "%s: --accept %q names no statement of a policy file", o.Verb, "residue:"+w)
	}
	return nil
}
