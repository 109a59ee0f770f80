package corpus

import (
	"bytes"
	"os"

	"cloister/escape"
)

func fs21a() escape.Case {
	return escape.Case{
		ID: "FS-21a", Class: "the first process", Attack: "read the memory, environment, descriptors and command line of process 1 inside, which is a copy of the shim",
		Source: "CVE-2019-5736, CVE-2024-21626", Layers: []string{"not dumpable", "view", "seccomp", "capabilities"},
		Tries: func(in escape.Inside) []escape.Try {
			first := "/proc/1/"
			if in.Control {
				first = "/proc/" + itoa(in.PID) + "/"
			}
			var out []escape.Try
			names := []string{"environ", "mem", "maps", "auxv", "cmdline"}
			if in.Level == escape.Pod { // its words are the same in every pod
				names = names[:4]
			}
			for _, name := range names {
				out = append(out, escape.Try{Name: "read " + name, Open: errnos(5), Do: func() error { // EIO: memory at 0
					f, err := os.Open(first + name)
					if err != nil {
						return err
					}
					defer f.Close()
					text := make([]byte, 64)
					n, err := f.Read(text)
					if name == "cmdline" && len(bytes.Trim(text[:n], "\x00")) == 0 { // gVisor's shows as many zeros as there were
						return escape.ErrNothing
					}
					if n == 0 && err != nil && name != "mem" {
						return escape.ErrNothing
					}
					return nil
				}})
			}
			links := []string{"root", "cwd", "exe", "fd/0", "ns/user", "ns/mnt"}
			if in.Level == escape.GVisor { // the last two have numbers of its own, from 1 on
				links = links[:4]
			}
			for _, name := range links {
				out = append(out, escape.Try{Name: "follow " + name, Do: func() error {
					_, err := os.Readlink(first + name)
					return err
				}})
			}
			return out
		},
	}
}
