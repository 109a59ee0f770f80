package corpus

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// af16a opens more terminals than one cloister may have.
func af16a() escape.Case {
	const wanted = 600
	return escape.Case{
		ID: "AF-16a", Class: "terminals", Attack: "open terminals until the machine has none left for containers and their users (kernel.pty.max)",
		Source: "own corpus: devpts, max=", Layers: []string{"view"},
		Except: map[escape.Column]string{escape.GVisor: "terminals are gVisor's own: the host has as many as before"},
		Tries: func(escape.Inside) []escape.Try {
			return []escape.Try{{
				Name: fmt.Sprintf("open %d of them", wanted), Held: []error{unix.ENOSPC},
				Do: func() error {
					var limit unix.Rlimit
					if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
						return err
					}
					limit.Cur = limit.Max
					if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
						return err
					}
					for range wanted {
						f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
						if err != nil {
							return err
						}
						defer f.Close()
					}
					return nil
				},
			}}
		},
	}
}
