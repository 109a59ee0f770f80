package corpus

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"cloister/escape"
)

func pr06() escape.Case {
	return escape.Case{
		ID: "PR-06", Class: "privilege helpers", Attack: "become root by su, sudo, pkexec, newuidmap, fusermount3 and mount, where they are installed",
		Source: "HARDENING 5.1", Layers: []string{"capabilities", "view"},
		Tries: func(escape.Inside) []escape.Try {
			var out []escape.Try
			for _, argv := range [][]string{
				{"/usr/bin/su", "-c", "id -u"}, {"/usr/bin/sudo", "-n", "id", "-u"}, {"/usr/bin/pkexec", "id", "-u"},
				{"/usr/bin/newuidmap", "1", "0", "0", "1"}, {"/usr/bin/fusermount3", "-u", "/mnt"}, {"/usr/bin/mount", "-t", "tmpfs", "none", "/mnt"}, {"/usr/sbin/unix_chkpwd", "root", "nullok"},
			} {
				control, why := here(argv[0], escape.ByRoot)
				switch argv[0] {
				case "/usr/bin/newuidmap", "/usr/bin/fusermount3", "/usr/sbin/unix_chkpwd", "/usr/bin/pkexec":
					if control == escape.ByRoot {
						control, why = escape.ByNobody, "it would change the host"
					}
				}
				out = append(out, escape.Try{Name: "run " + argv[0], Control: control, Why: why, Do: func() error {
					if !exists(argv[0]) {
						return escape.ErrNothing
					}
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // an attempt is a program of its own
					defer cancel()
					text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
					if err == nil && (len(argv) < 3 || strings.TrimSpace(string(text)) == "0" || argv[0] == "/usr/bin/mount") {
						return nil
					}
					return escape.ErrNothing
				}})
			}
			return out
		},
	}
}
