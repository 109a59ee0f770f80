package corpus

import (
	"fmt"
	"os"
	"strings"

	"cloister/escape"
)

func fs25a() escape.Case {
	return escape.Case{
		ID: "FS-25a", Class: "shared mounts", Attack: "start where the host's mounts are shared, as systemd makes them: what is mounted inside must not appear outside",
		Source: "found by this corpus: a run by root left its covers on the host", Layers: []string{"private mounts"},
		Except: map[escape.Column]string{
			escape.User: "mounts are shared in a user namespace of this case, in which root's helper is not root",
		},
		Host: func(w *escape.World) []escape.Finding {
			flags, back := "-m --propagation shared", ""
			if !w.ByRoot { // root in a namespace is nobody's root: who starts it is oneself again
				flags, back = "-Ur -m --propagation private", fmt.Sprintf("unshare --user --map-user=%d --map-group=%d ", os.Getuid(), os.Getgid())
			}
			const look = "grep -c \" $ESCAPE_AT/\" /proc/self/mountinfo"
			w.Env["ESCAPE_AT"] = w.Base
			defer delete(w.Env, "ESCAPE_AT")
			ready := w.Project + "/ready25"
			defer clean(ready)
			res, err := w.Exec("sh", "-c", "exec unshare "+flags+" sh -c '"+back+w.Cloister+" run -- sh -c \"touch ready25; sleep 1\" & "+
				"while kill -0 $! && ! [ -e ready25 ]; do sleep 0.1; done; "+look+"; wait; "+look+"; mount --make-rshared /; mount --bind . src; "+look+"'")
			if err != nil {
				return escape.NoHost("run", err)
			}
			counts := strings.Fields(res.Stdout)
			if len(counts) != 3 {
				return []escape.Finding{found("three looks", false, "%s%s", res.Stdout, res.Stderr)}
			}
			return []escape.Finding{
				found("control: it ran", exists(ready), "%s", res.Stderr),
				found("no mount while it runs", counts[0] == "0", "%s mounts", counts[0]),
				found("none afterwards", counts[1] == "0", "%s mounts", counts[1]),
				found("control: a mount would be seen", counts[2] != "0", "%s", res.Stderr),
			}
		},
	}
}
