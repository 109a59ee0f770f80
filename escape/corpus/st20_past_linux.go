package corpus

import (
	_ "embed"
	"strings"

	"cloister/escape"
)

// past is a payload that wants to write to what lies below its overlay, or to the folders
// in which the overlay keeps what it writes.
//
//go:embed scripts/past.sh
var past string

func st20() escape.Case {
	return escape.Case{
		ID: "ST-20", Class: "past an overlay",
		Attack: "write to the project below an overlay workspace, or reach the layers that it keeps: by other paths, mounts, handles, forged whiteouts and attributes",
		Source: "docs/decisions/0082", Layers: []string{"overlay"},
		Host: between("", func(r *ruled) []escape.Finding {
			r.host("mkdir -p folder; echo in >folder/in; echo host >main.go; chmod -R a+rwX .")
			defer r.cloister("discard", "st20")
			res := r.overlaid("st20", past)
			whole := r.host("cat main.go folder/in; ls").Stdout
			lines := r.cloister("diff", "--name-only", "st20")
			after := r.host("cat $(find " + r.base + "/data/cloister/state -name st20-only)").Stdout
			live := r.run("sh", "-c", "echo payload >main.go")
			return []escape.Finding{
				worked("the payload", res),
				found("it sees neither stage nor layer", !strings.Contains(res.Stdout, "seen "), "%s", res.Stdout),
				found("it makes no whiteout", !strings.Contains(res.Stdout, "made "), "%s", res.Stdout),
				found("it opens nothing by a handle", !strings.Contains(res.Stdout, "opened "), "%s", res.Stdout),
				found("it sets no attribute that would stay one of the layers' own",
					!strings.Contains(res.Stdout, "set trusted"), "%s", res.Stdout),
				found("the project is the host's", whole == "host\nin\nfolder\nmain.go\n", "%q", whole),
				found("a diff tells what it did", strings.Contains(lines.Stdout, "main.go") && strings.Contains(lines.Stdout, "st20-only") &&
					strings.Contains(lines.Stdout, "folder/in"), "%s%s", lines.Stdout, lines.Stderr),
				found("control: the layers lie on the host", after == "mine\n", "%q", after),
				worked("the same on a live workspace", live),
				found("control: that reaches the project", r.host("cat main.go").Stdout == "payload\n", "%s", live.Stderr),
			}
		}),
	}
}
