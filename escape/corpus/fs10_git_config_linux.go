package corpus

import (
	"os"

	"cloister/escape"
)

func fs10() escape.Case {
	return escape.Case{
		ID: "FS-10", Class: "git config", Attack: "set core.fsmonitor, core.hooksPath, core.sshCommand, a filter or an include where git of the host reads them",
		Source: "CVE-2026-48124; sandvault #177", Layers: []string{"protect"},
		Tries: func(in escape.Inside) []escape.Try {
			git := in.Project + "/.git"
			var out []escape.Try
			for _, name := range []string{"config", "config.worktree", "info/attributes", "info/exclude", "info/grafts", "commondir"} {
				out = append(out, held("write "+name, func() error { return create(git+"/"+name, "FS-10") }))
			}
			return append(out,
				held("replace config", func() error {
					if err := create(git+"/mine", "FS-10"); err != nil {
						return err
					}
					defer os.Remove(git + "/mine")
					return os.Rename(git+"/mine", git+"/config")
				}),
				held("lock and rename, as git does", func() error {
					if err := create(git+"/config.lock", "FS-10"); err != nil {
						return err
					}
					defer os.Remove(git + "/config.lock")
					return os.Rename(git+"/config.lock", git+"/config")
				}),
				held("remove config", func() error { return os.Remove(git + "/config") }),
			)
		},
	}
}
