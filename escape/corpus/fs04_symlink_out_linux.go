package corpus

import (
	"os"

	"cloister/escape"
)

func fs04() escape.Case {
	return escape.Case{
		ID: "FS-04", Class: "symlink out", Attack: "make symbolic links in the project, the home and /tmp that lead outside; read and write through them",
		Source: "CVE-2026-39861", Layers: []string{"view"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for where, dir := range map[string]string{"project": in.Project, "home": in.Home, "tmp": "/tmp"} {
				link := dir + "/fs04-link"
				through := func(do func() error) func() error {
					return func() error {
						if err := os.Symlink(in.Outside, link); err != nil {
							return err
						}
						defer os.Remove(link)
						return do()
					}
				}
				out = append(out,
					on("read by a link in "+where, through(func() error { return secrets(link + "/canary") })),
					on("write by a link in "+where, through(func() error { return appendTo(link+"/canary", "FS-04") })))
			}
			return out
		},
	}
}
