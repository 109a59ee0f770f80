package policies

import (
	"fmt"
	"strings"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/host/resolve"
	"cloister/policyset"
	"cloister/session/launch"
)

// tellStatements prints what keeps each statement of the Cedar files.
func (a *Commands) tellStatements(list []api.Statement) {
	colour := map[string]int{"enforced": cli.Green, "kernel": cli.Green, "view": cli.Green, "partial": cli.Yellow,
		"residue": cli.Red}
	for _, st := range list {
		a.Out.WriteString(a.Paint(fmt.Sprintf("%-8s", st.Hold), colour[st.Hold]))
		a.Line("  %s:%d  %s %s", st.File, st.Line,
			map[string]string{"deny": "forbid", "ask": "@ask permit", "allow": "permit"}[st.Effect],
			strings.Join(st.Actions, ", "))
		if len(st.Resources) > 0 {
			a.Line("          on %s", strings.Join(st.Resources, ", "))
		}
		if st.By != "" {
			a.Line("          by %s", st.By)
		}
		if st.Why != "" {
			a.Line("          but %s", st.Why)
		}
		if st.Residue != "" {
			a.Line("          to go on without it: --accept %s", st.Residue)
		}
	}
}

// checkFiles is what the files on disk, with more Cedar files, come to. An error
// is what is wrong with them.
func (a *Commands) checkFiles(more []string) (api.PolicyCheck, error) {
	d, err := a.Dirs()
	if err != nil {
		return api.PolicyCheck{}, err
	}
	cedar, err := launch.CedarFiles(more, "policy check")
	if err != nil {
		return api.PolicyCheck{}, err
	}
	return policyset.Check(d.Config, a.Home(), resolve.In(d.State, a.UID), cedar)
}
