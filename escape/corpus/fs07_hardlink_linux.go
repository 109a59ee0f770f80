package corpus

import (
	"os"

	"cloister/escape"
)

func fs07() escape.Case {
	return escape.Case{
		ID: "FS-07", Class: "hardlink alias", Attack: "link files of the host into the project, by path and by descriptor",
		Source: "Flatpak GHSA-8688-9x26-hhxj", Layers: []string{"view", "landlock"},
		Tries: func(in escape.Inside) []escape.Try {
			return []escape.Try{
				{Name: "link a file from outside", Held: append(escape.Denied(), errnos(18)...), Do: func() error { // EXDEV
					defer os.Remove(in.Project + "/alias")
					return os.Link(in.Outside+"/canary", in.Project+"/alias")
				}},
				{Name: "link a file out of the project", Held: append(escape.Denied(), errnos(18)...), Do: func() error {
					defer os.Remove(in.Outside + "/alias")
					return os.Link(in.Project+"/main.go", in.Outside+"/alias")
				}},
			}
		},
	}
}
