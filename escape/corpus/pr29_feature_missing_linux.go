package corpus

import (
	"strings"

	"cloister/escape"
)

func pr29() escape.Case {
	return escape.Case{
		ID: "PR-29", Class: "feature missing", Attack: "start where user namespaces cannot be made: it refuses by name and runs nothing",
		Source: "claude-code 2.1.78, 2.1.83 (ran unsandboxed when helpers were missing)", Layers: []string{"no start"},
		Host: func(w *escape.World) []escape.Finding {
			mark := w.Project + "/ran"
			defer clean(mark)
			res, err := w.Exec("unshare", "-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces && exec "+w.Cloister+" run -- touch ran")
			if err != nil {
				return escape.NoHost("start without user namespaces", err)
			}
			control := w.Outcome(nil, "touch", "ran2")
			ran := exists(w.Project + "/ran2")
			clean(w.Project + "/ran2")
			return []escape.Finding{
				found("it does not start", res.Status == 125, "status %d: %s", res.Status, res.Stderr),
				found("it says what is missing", strings.Contains(res.Stderr, "namespace"), "%s", res.Stderr),
				found("it says what would fix it", strings.Contains(res.Stderr, "hint:"), "%s", res.Stderr),
				found("nothing ran", !exists(mark), "the file is there"),
				found("control: with them it runs", control.Status == 0 && ran, "status %d: %s", control.Status, control.Stderr),
			}
		},
	}
}
