package corpus

import (
	"strings"

	"cloister/escape"
)

func fs33() escape.Case {
	return escape.Case{
		ID: "FS-33", Class: "leaked descriptors", Attack: "list the descriptors and the folder of the first process and of its children, started with more of them open outside",
		Source: "CVE-2024-21626 (runc: a leaked descriptor of the working folder)", Layers: []string{"close_range", "view"},
		Host: func(w *escape.World) []escape.Finding {
			const look = "exec 3<&- 2>/dev/null; for f in /proc/self/fd/*; do readlink $f; done; readlink /proc/self/cwd; sh -c 'ls /proc/self/fd' | tr '\\n' ' '"
			leak := "exec 7<" + w.Outside + " 8>" + w.Outside + "/leak 9</etc/shadow; "
			if !w.ByRoot {
				leak = "exec 7<" + w.Outside + " 8>" + w.Outside + "/leak 9</etc/passwd; "
			}
			defer clean(w.Outside + "/leak")
			res, err := w.Exec("sh", "-c", leak+"exec "+w.Cloister+" run -- sh -c \"$0\"", look)
			if err != nil {
				return escape.NoHost("run", err)
			}
			control, err := w.Exec("sh", "-c", leak+"for f in /proc/self/fd/*; do readlink $f; done")
			if err != nil {
				return escape.NoHost("control", err)
			}
			return []escape.Finding{
				found("it ran", res.Status == 0 && strings.Contains(res.Stdout, w.Project), "status %d: %s%s", res.Status, res.Stdout, res.Stderr),
				found("no descriptor of the host is open", len(unwanted(res.Stdout, w.Outside, "/etc/shadow", "/etc/passwd", "socket:", "anon_inode")) == 0, "%s", res.Stdout),
				found("children have 0, 1, 2 and the one they list with", strings.Contains(res.Stdout, "0 1 2 3 ") && !strings.Contains(res.Stdout, "3 4"), "%s", res.Stdout),
				found("control: a shell outside keeps them", strings.Contains(control.Stdout, w.Outside), "%s", control.Stdout),
			}
		},
	}
}
