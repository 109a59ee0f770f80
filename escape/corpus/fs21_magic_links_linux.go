package corpus

import (
	"os"
	"path/filepath"
	"strconv"

	"cloister/escape"
)

func fs21() escape.Case {
	return escape.Case{
		ID: "FS-21", Class: "/proc magic links", Attack: "reach the host's files by /proc/PID/root, cwd, fd and map_files of every process",
		Source: "agents that route around path lists", Layers: []string{"pid namespace", "view"},
		Tries: func(in escape.Inside) []escape.Try {
			pid := strconv.Itoa(in.PID)
			each := func(pattern, rest string) func() error {
				return func() error {
					found, err := filepath.Glob(pattern)
					if err != nil {
						return err
					}
					for _, p := range found {
						if secrets(p+rest) == nil {
							return nil
						}
					}
					return escape.ErrNothing
				}
			}
			return []escape.Try{
				on("by root of a host's process", func() error { return secrets("/proc/" + pid + "/root" + in.Outside + "/canary") }),
				on("the environment of a host's process", func() error { return secrets("/proc/" + pid + "/environ") }),
				on("cwd of a host's process", func() error { _, err := os.Readlink("/proc/" + pid + "/cwd"); return err }),
				on("by root of any process", each("/proc/[0-9]*/root", in.Outside+"/canary")),
				on("by cwd of any process", each("/proc/[0-9]*/cwd", "/../../../outside/canary")),
				on("by cwd of oneself", func() error { return secrets("/proc/self/cwd/../../../outside/canary") }),
				on("by root of oneself", func() error { return secrets("/proc/self/root" + in.Outside + "/canary") }),
				on("by root of a thread", each("/proc/self/task/*/root", in.Outside+"/canary")),
			}
		},
	}
}
