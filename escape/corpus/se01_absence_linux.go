package corpus

import (
	"cloister/escape"
	"slices"
	"strings"
)

func se01() escape.Case {
	return escape.Case{
		ID: "SE-01", Class: "absence", Attack: "search the environment, every process and every file that can be read for a secret: plain, reversed, in hex and base64",
		Source: "gondolin secrets.md; glovebox", Layers: []string{"secrets", "view"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			look := []string{"search", complement(canary), "/work", "/home", "/root", "/tmp", "/etc", "/run", "/var", "/dev/shm", "/refs", r.project, r.w.Home, r.base}
			used := r.swapped()
			res := r.inside(look...)
			out := []escape.Finding{used, found("nothing is found", res.Status == 0 && strings.HasSuffix(res.Stdout, " 0 found\n"), "status %d: %.900s %s", res.Status, res.Stdout, res.Stderr)}
			back := []byte(canary)
			slices.Reverse(back)
			if err := r.w.Write(r.project+"/planted", "said "+string(back)); err != nil {
				return escape.NoHost("plant one", err)
			}
			control := r.inside(look...)
			return append(out, found("control: one that was planted is found", strings.Contains(control.Stdout, "found reversed in"), "%.600s", control.Stdout))
		}),
	}
}
