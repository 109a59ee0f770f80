package corpus

import (
	"os/exec"
	"syscall"
	"time"

	"cloister/escape"
)

func pr19() escape.Case {
	const limit, want = 48, 120
	return escape.Case{
		ID: "PR-19", Class: "fork bomb", Attack: "start more processes than the limit says; the cloister ends within two seconds all the same",
		Source: "every CI machine", Layers: []string{"RLIMIT_NPROC in the user namespace"}, Slow: 60,
		Flags: func(*escape.World) []string { return []string{"--pids", itoa(limit)} },
		Tries: func(escape.Inside) []escape.Try {
			return []escape.Try{{Name: "start " + itoa(want) + " processes", Held: errnos(syscall.EAGAIN), Do: func() error {
				var started []*exec.Cmd
				defer func() {
					for _, c := range started {
						_ = c.Process.Kill()
						_ = c.Wait()
					}
				}()
				for range want {
					c := exec.Command("/bin/sleep", "60") //nolint:forbidigo // killed above
					if err := c.Start(); err != nil {
						return plain(err)
					}
					started = append(started, c)
				}
				return nil
			}}}
		},
		Host: func(w *escape.World) []escape.Finding {
			began := time.Now()
			res := w.Outcome([]string{"--pids", itoa(limit), "--timeout", "1s"}, "sh", "-c", "b() { b | b & }; b 2>/dev/null; sleep 60")
			return []escape.Finding{found("a bomb is ended in time", time.Since(began) < 40*time.Second && res.Status != 0, "status %d after %v: %.200s", res.Status, time.Since(began), res.Stderr)}
		},
	}
}
