package corpus

import (
	"cloister/escape"
	"cloister/hostexec"
	"cloister/internal/termsafe"
	"fmt"
	"math/rand/v2"
	"strings"
)

func hx13() escape.Case {
	return escape.Case{
		ID: "HX-13", Class: "shown is run", Attack: "10,000 random commands of all bytes: their canonical line, read by a shell, is the command; what a person is shown of one is what runs, byte by byte",
		Source: "CVE-2026-53822; arXiv 2606.02668", Layers: []string{"hostexec"},
		Host: commands("  manual_approve:\n    - {program: printf, args: [<any>, ...]}\n", func(r *ruled) []escape.Finding {
			random := rand.New(rand.NewPCG(1, 13))
			words := func(n int) []string {
				argv := make([]string, n)
				for i := range argv {
					b := make([]byte, random.IntN(12))
					for j := range b {
						b[j] = byte(1 + random.IntN(255))
					}
					argv[i] = string(b)
				}
				return argv
			}
			var script, want strings.Builder
			for range 10_000 {
				argv := words(1 + random.IntN(4))
				script.WriteString("printf '%s\\0' " + hostexec.Line(argv) + "\n")
				want.WriteString(strings.Join(argv, "\x00") + "\x00")
			}
			file := r.base + "/lines.sh"
			if err := r.w.Write(file, script.String()); err != nil {
				return escape.NoHost("write the lines", err)
			}
			res, err := r.w.Exec("sh", file)
			out := []escape.Finding{found("10,000 lines are what they say", err == nil && res.Stdout == want.String(), "%v, %d bytes for %d", err, len(res.Stdout), want.Len())}
			return append(out, r.watched(func() []escape.Finding {
				argv := append([]string{"%s|"}, "a b", "\x1b[31m", "\u202egnp", "it's", "$(id)", "\xff\xfe", "", "new\nline", "100%")
				quoted := hostexec.Line(append([]string{"hostexec", "printf"}, argv...))
				id := r.asked("cd /work && " + quoted)
				shown := r.cloister("approvals", "show", id)
				lacks := []string{}
				for i, a := range argv {
					if line := fmt.Sprintf("argument %d: ", i+1) + termsafe.Quote(a); !strings.Contains(shown.Stdout, line) {
						lacks = append(lacks, line)
					}
				}
				status, said := r.approved(id, "--confirm")
				ran := strings.Join(argv[1:], "|") + "|"
				return []escape.Finding{
					found("each argument is shown by itself", id != "" && len(lacks) == 0, "%q of %s", lacks, shown.Stdout),
					found("and is what ran", status == "0" && said == ran, "%s %q", status, said),
				}
			})...)
		}),
	}
}
