package corpus

import (
	"os"

	"cloister/escape"
)

func fs08a() escape.Case {
	return escape.Case{
		ID: "FS-08a", Class: "git hook by the alias", Attack: "write and replace hooks and configuration by /work, the other path of the project",
		Source: "CVE-2026-25725 (a rule that knows one spelling of a path)", Layers: []string{"protect"},
		Needs: map[escape.Layer]string{escape.View: "the alias is part of the view"},
		Tries: func(in escape.Inside) []escape.Try {
			git := "/work/.git"
			if in.Control {
				git = in.Project + "/.git"
			}
			return []escape.Try{
				held("write pre-commit", func() error { return create(git+"/hooks/pre-commit", "FS-08a") }),
				held("rename a sample", func() error { return os.Rename(git+"/hooks/pre-push.sample", git+"/hooks/pre-push") }),
				held("write the configuration", func() error { return appendTo(git+"/config", "FS-08a") }),
				held("move hooks away", func() error { return away(git + "/hooks") }),
				held("move .git away", func() error { return away(git) }),
			}
		},
	}
}
