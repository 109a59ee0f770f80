package main

import (
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/config"
	"cloister/internal/nearest"
	"cloister/policy"
	"cloister/policyset"
	"cloister/sandbox"
	"cloister/workspace"
)

// close puts into the view what Cedar files say of files and programs, and gives
// the rules of those statements. It also refuses an --accept of a statement that
// no file has.
func (f *runFlags) close(view *workspace.Options, sources config.Sources, cedar []api.CedarFile, root sandbox.Root) ([]string, error) {
	files := cedarFiles(sources)
	for _, c := range cedar {
		files = append(files, policy.CedarFile{Name: c.Name, Text: []byte(c.Text)})
	}
	if err := f.checkAccepted(files); err != nil {
		return nil, err
	}
	list, err := policy.FileStatements(files)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	view.Root = string(root.Dir)
	var rules []string
	for _, st := range list {
		if st.Hold != policy.InView {
			continue
		}
		rules = append(rules, st.Rule)
		for _, p := range st.Closed {
			view.Closed = append(view.Closed, workspace.Closed{
				Path: p.Path, Dir: p.Dir, Write: p.Write, Rule: st.Rule, Place: st.Origin.String(),
				Residue: st.Residue(), Accepted: slices.Contains(f.accepted(), st.Residue()),
			})
		}
	}
	return rules, nil
}

func cedarFiles(sources config.Sources) []policy.CedarFile {
	var files []policy.CedarFile
	for _, c := range sources.Cedar {
		files = append(files, policy.CedarFile{Name: c.Name, Text: c.Text})
	}
	return files
}

// checkAccepted holds each --accept residue:policy:… to the statements that are.
func (f *runFlags) checkAccepted(files []policy.CedarFile) error {
	words := slices.DeleteFunc(f.accepted(), func(w string) bool { return !strings.HasPrefix(w, residuePolicy) })
	if len(words) == 0 {
		return nil
	}
	s, err := policy.Compile(policy.Input{Cedar: files})
	if err != nil {
		return fmt.Errorf("read policy: %w", err)
	}
	var known []string
	for _, st := range s.Statements() {
		known = append(known, st.Residue())
	}
	for _, w := range words {
		if slices.Contains(known, w) {
			continue
		}
		hint := "cloister policy check tells the statements that nothing keeps, with their words"
		if near := nearest.Word(w, known); near != "" {
			hint = "did you mean --accept residue:" + near + "?"
		}
		return wrongWords(hint, f.verb+": --accept %q names no statement of a policy file", "residue:"+w)
	}
	return nil
}

// tellStatements prints what keeps each statement of the Cedar files.
func (a *app) tellStatements(list []api.Statement) {
	colour := map[string]int{"enforced": green, "view": green, "partial": yellow, "residue": red}
	for _, st := range list {
		a.out.WriteString(a.paint(fmt.Sprintf("%-8s", st.Hold), colour[st.Hold]))
		a.line("  %s:%d  %s %s", st.File, st.Line, map[string]string{"deny": "forbid", "ask": "@ask permit", "allow": "permit"}[st.Effect], strings.Join(st.Actions, ", "))
		if len(st.Resources) > 0 {
			a.line("          on %s", strings.Join(st.Resources, ", "))
		}
		if st.By != "" {
			a.line("          by %s", st.By)
		}
		if st.Why != "" {
			a.line("          but %s", st.Why)
		}
		if st.Residue != "" {
			a.line("          to go on without it: --accept %s", st.Residue)
		}
	}
}

// checkFiles is what the files on disk, with more Cedar files, come to. An error
// is what is wrong with them.
func (a *app) checkFiles(more []string) (api.PolicyCheck, error) {
	d, err := a.dirs()
	if err != nil {
		return api.PolicyCheck{}, err
	}
	cedar, err := cedarTexts(more, "policy check")
	if err != nil {
		return api.PolicyCheck{}, err
	}
	return policyset.Check(d.Config, a.home(), cedar)
}
