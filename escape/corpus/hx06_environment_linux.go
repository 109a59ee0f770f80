package corpus

import (
	"strings"

	"cloister/escape"
)

func hx06() escape.Case {
	return escape.Case{
		ID: "HX-06", Class: "environment injection", Attack: "variables that loaders and tools obey are set inside: a host command has none of them",
		Source: "CVE-2026-22708", Layers: []string{"hostexec", "commands"},
		Host: commands("  auto_approve: [{pattern: \"^printenv$\"}]\n", func(r *ruled) []escape.Finding {
			names := []string{"LD_PRELOAD", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "NODE_OPTIONS", "PYTHONPATH", "EDITOR", "PAGER", "BASH_ENV", "PERL5OPT"}
			set := "env "
			for _, n := range names {
				if n != "LD_PRELOAD" {
					set += n + "=hx06 "
				}
			}
			res := r.run("sh", "-c", "export LD_PRELOAD=/hx06.so; "+set+"PATH=/hx06:$PATH hostexec printenv")
			out := []escape.Finding{
				found("it ran", res.Status == 0 && strings.Contains(res.Stdout, "CLOISTER_HOSTEXEC=1"), "status %d: %s", res.Status, res.Stderr),
				found("none of them is there", !strings.Contains(res.Stdout, "hx06"), "%s", res.Stdout),
			}
			control := r.host(set + "printenv")
			return append(out, found("control: outside they are", strings.Count(control.Stdout, "hx06") == len(names)-1, "%s", control.Stdout))
		}),
	}
}
