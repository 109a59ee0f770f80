package corpus

import (
	"bytes"
	"os"

	"cloister/escape"
)

// af16b looks for the shim's command line at every name that procfs has for it.
func af16b() escape.Case {
	return escape.Case{
		ID: "AF-16b", Class: "the first process's threads", Attack: "read the command line of process 1 inside, which shows paths and flags of the host, by the folders of its threads",
		Source: "own corpus: proc_pid_cmdline(5)", Layers: []string{"view"},
		Tries: func(in escape.Inside) []escape.Try {
			first := "/proc/1"
			if in.Control {
				first = "/proc/" + itoa(in.PID)
			}
			return []escape.Try{{Name: "read task/*/cmdline", Do: func() error {
				threads, err := os.ReadDir(first + "/task")
				if err != nil {
					return err
				}
				for _, t := range threads {
					text, err := os.ReadFile(first + "/task/" + t.Name() + "/cmdline")
					if err == nil && len(bytes.Trim(text, "\x00")) > 0 { // gVisor shows zeros
						return nil
					}
				}
				return escape.ErrNothing
			}}}
		},
	}
}
