package contained

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// profile is a seccomp profile as engines read it.
type profile struct {
	DefaultAction string
	Syscalls      []struct {
		Names  []string
		Action string
		Args   []struct {
			Index, Value uint64
			Op           string
		}
	}
}

// lets tells whether a profile lets a call through; of socket, with a family.
func (p profile) lets(name string, family uint64) bool {
	for _, s := range p.Syscalls {
		if !slices.Contains(s.Names, name) || s.Action != "SCMP_ACT_ALLOW" {
			continue
		}
		if len(s.Args) == 0 || name == "socket" && s.Args[0].Index == 0 && s.Args[0].Value == family && s.Args[0].Op == "SCMP_CMP_EQ" {
			return true
		}
	}
	return p.DefaultAction == "SCMP_ACT_ALLOW"
}

func old() escape.Case {
	return escape.Case{
		ID: "BK-02", Class: "Docker old daemon", Attack: "on an engine whose own profile is old: the profile that it is given must keep io_uring, AF_ALG and AF_VSOCK shut by itself",
		Source: "moby#46762; moby/profiles dec315c", Layers: []string{"containers", "seccomp"}, Only: []escape.Column{escape.Docker},
		Host: func(w *escape.World) []escape.Finding {
			// Root's and the user's attempts share an engine.
			name := fmt.Sprintf("bk02-%d", os.Getuid())
			res := w.Outcome([]string{"-d", "--name", name}, "sleep", "60")
			defer func() { _, _ = w.Exec(w.Cloister, "stop", name) }() // the world's end would too
			if res.Status != 0 {
				return []escape.Finding{escape.Found("it runs", false, "status %d: %s", res.Status, res.Stderr)}
			}
			c, err := EngineOf(w).of(name, "init")
			if err != nil {
				return escape.NoHost("look at the container", err)
			}
			var p profile
			for _, o := range c.HostConfig.SecurityOpt {
				if text, ok := strings.CutPrefix(o, "seccomp="); ok {
					err = json.Unmarshal([]byte(text), &p)
				}
			}
			if err != nil {
				return escape.NoHost("read the profile", err)
			}
			var out []escape.Finding
			for _, name := range []string{"io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "mount", "keyctl", "add_key", "userfaultfd", "perf_event_open", "setns", "open_by_handle_at"} {
				out = append(out, escape.Found(name+" is shut", !p.lets(name, 0), "the profile lets it through"))
			}
			for name, family := range map[string]uint64{"AF_ALG": unix.AF_ALG, "AF_VSOCK": unix.AF_VSOCK, "AF_PACKET": unix.AF_PACKET, "AF_XDP": unix.AF_XDP} {
				out = append(out, escape.Found("socket of "+name+" is shut", !p.lets("socket", family), "the profile lets it through"))
			}
			return append(out,
				escape.Found("control: what programs need is open", p.lets("openat", 0) && p.lets("socket", unix.AF_INET), "the profile is not read as it is"),
				// Seccomp_filters counts them: the engine's for the first process, both
				// for the command (proc_pid_status(5)).
				filters(w, name))
		},
	}
}

func filters(w *escape.World, name string) escape.Finding {
	res, err := w.Exec(w.Cloister, "exec", name, "--", "grep", "-h", "Seccomp_filters", "/proc/self/status")
	return escape.Found("the command is behind both filters", err == nil && strings.Join(strings.Fields(res.Stdout), " ") == "Seccomp_filters: 2", "status %d: %s%s", res.Status, res.Stdout, res.Stderr)
}
