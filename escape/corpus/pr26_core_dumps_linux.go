package corpus

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr26() escape.Case {
	return escape.Case{
		ID: "PR-26", Class: "core dumps", Attack: "crash with a core file; read the guardian's memory and environment from the host's user",
		Source: "OpenShell core_dump_hardening", Layers: []string{"RLIMIT_CORE 0", "not dumpable"},
		Tries: func(escape.Inside) []escape.Try {
			return []escape.Try{
				on("raise the size of core files", func() error {
					var r unix.Rlimit
					if err := unix.Getrlimit(unix.RLIMIT_CORE, &r); err != nil {
						return err
					}
					if r.Max == 0 {
						return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
					}
					return nil
				}),
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			res := w.Outcome(nil, "sh", "-c", "kill -SEGV $$")
			core, err := os.Stat(w.Project + "/core")
			out := []escape.Finding{
				found("a crash leaves no core file", res.Status == 128+int(syscall.SIGSEGV) && err != nil, "status %d %v", res.Status, core),
			}
			if w.ByRoot {
				return append(out, found("root may read every process", true, ""))
			}
			for _, name := range []string{"mem", "environ", "maps"} {
				out = append(out, found("the guardian's "+name+" is closed to its own user", openFor("/proc/"+strconv.Itoa(w.Guardian)+"/"+name, os.O_RDONLY) != nil, "it opened"))
			}
			return append(out, found("control: another process's is open", openFor("/proc/"+strconv.Itoa(w.PID)+"/environ", os.O_RDONLY) == nil, "it is closed"))
		},
	}
}
