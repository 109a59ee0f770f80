package hostrules

import (
	"slices"
	"strings"

	"cloister/config"
)

// Shims are the programs that stand for hostexec inside, and, where git is one of
// them, the remotes that the guardian alone speaks with.
func Shims(cfg config.Hostexec) (programs, remotes []string) {
	for _, name := range cfg.Shims {
		if name != "git" {
			programs = append(programs, name)
			continue
		}
		for _, r := range slices.Concat(cfg.ManualApprove, cfg.AutoApprove) {
			if r.Program == "git" && len(r.Args) > 1 && slices.Contains([]string{"push", "fetch"}, r.Args[0]) &&
				!strings.HasPrefix(r.Args[1], "<") && !slices.Contains(remotes, r.Args[1]) {
				remotes = append(remotes, r.Args[1])
			}
		}
	}
	return programs, remotes
}
