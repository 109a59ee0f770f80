package corpus

import (
	"os"

	"cloister/escape"
)

func pr24() escape.Case {
	return escape.Case{
		ID: "PR-24", Class: "cgroup escape", Attack: "move oneself, make groups, set notify_on_release and release_agent",
		Source: "CVE-2022-0492", Layers: []string{"view", "landlock", "capabilities"},
		Tries: func(escape.Inside) []escape.Try {
			var out []escape.Try
			for _, path := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/notify_on_release", "/sys/fs/cgroup/unified/cgroup.procs"} {
				control, why := here(path, escape.ByRoot)
				out = append(out, escape.Try{Name: "open " + path, Control: control, Why: why, Do: func() error { return openFor(path, os.O_WRONLY) }})
			}
			made := "/sys/fs/cgroup/escape-pr24"
			if exists("/sys/fs/cgroup/memory") {
				made = "/sys/fs/cgroup/memory/escape-pr24"
			}
			control, why := here("/sys/fs/cgroup", escape.ByRoot)
			return append(out, escape.Try{Name: "make a group", Control: control, Why: why, Do: func() error {
				defer os.Remove("/sys/fs/cgroup/escape-pr24")
				defer os.Remove("/sys/fs/cgroup/memory/escape-pr24")
				return os.Mkdir(made, 0o755)
			}})
		},
	}
}
