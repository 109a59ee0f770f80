package corpus

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr05() escape.Case {
	return escape.Case{
		ID: "PR-05", Class: "setuid gain", Attack: "gain by a set-user-id or file-capability program: no_new_privs, and every mount without set-id",
		Source: "HARDENING 5.1", Layers: []string{"capabilities", "view"},
		Tries: func(in escape.Inside) []escape.Try {
			tries := []escape.Try{
				on("programs may gain privileges", func() error {
					if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || n == 1 {
						return escape.ErrNothing
					}
					return nil
				}),
				on("a mount with set-id bits", func() error {
					text, err := os.ReadFile("/proc/self/mountinfo")
					if err != nil {
						return err
					}
					for line := range strings.Lines(string(text)) {
						f := strings.Fields(line)
						if len(f) > 5 && !strings.Contains(f[5], "nosuid") {
							return nil
						}
					}
					return escape.ErrNothing
				}),
				on("a capability in any set", func() error {
					text, err := os.ReadFile("/proc/self/status")
					if err != nil {
						return err
					}
					for line := range strings.Lines(string(text)) {
						if name, set, ok := strings.Cut(strings.TrimSpace(line), ":\t"); ok && strings.HasPrefix(name, "Cap") && strings.Trim(set, "0") != "" {
							return nil
						}
					}
					return escape.ErrNothing
				}),
			}
			// gVisor's list of mounts tells other flags than those that hold; a runtime's mounts have the bits, which gain
			// nothing without new privileges.
			if in.Level == escape.GVisor || in.Level == escape.Pod {
				tries = slices.Delete(tries, 1, 2)
			}
			return tries
		},
	}
}
