package main

import (
	"fmt"
	"strings"

	"cloister/api"
	"cloister/config"
	"cloister/host/resolve"
	"cloister/policy"
	"cloister/policyset"
	"cloister/session/launch"
)

func cedarFiles(sources config.Sources) []policy.CedarFile {
	var files []policy.CedarFile
	for _, c := range sources.Cedar {
		files = append(files, policy.CedarFile{Name: c.Name, Text: c.Text})
	}
	return files
}

// tellStatements prints what keeps each statement of the Cedar files.
func (a *app) tellStatements(list []api.Statement) {
	colour := map[string]int{"enforced": green, "kernel": green, "view": green, "partial": yellow, "residue": red}
	for _, st := range list {
		a.out.WriteString(a.paint(fmt.Sprintf("%-8s", st.Hold), colour[st.Hold]))
		a.line("  %s:%d  %s %s", st.File, st.Line,
			map[string]string{"deny": "forbid", "ask": "@ask permit", "allow": "permit"}[st.Effect],
			strings.Join(st.Actions, ", "))
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
	cedar, err := launch.CedarFiles(more, "policy check")
	if err != nil {
		return api.PolicyCheck{}, err
	}
	return policyset.Check(d.Config, a.home(), resolve.In(d.State, a.uid), cedar)
}
