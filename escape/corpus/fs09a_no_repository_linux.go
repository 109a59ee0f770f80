package corpus

import (
	"os"

	"cloister/escape"
)

func fs09a() escape.Case {
	dir := func(in escape.Inside) string { return in.Home + "/src/plain" }
	return escape.Case{
		ID: "FS-09a", Class: "a repository of its own", Attack: "start in a folder that is no repository, and make it one: .git as a folder, a file, a link, a folder renamed; git of the host looks there afterwards",
		Source: "cases.tsv FS-09 (a repository made inside the session)", Layers: []string{"protect"},
		Prepare: func(w *escape.World) error { return w.Write(dir(w.Inside)+"/file", "plain\n") },
		Flags:   func(w *escape.World) []string { return []string{"-C", dir(w.Inside)} },
		Tries: func(in escape.Inside) []escape.Try {
			git, mine := dir(in)+"/.git", dir(in)+"/mine"
			// Outside there was nothing before; what one try made, the next does not find.
			try := func(name string, do func() error) escape.Try {
				return held(name, func() error {
					if err := os.MkdirAll(dir(in), 0o755); err != nil {
						return err
					}
					if in.Control {
						defer os.RemoveAll(git)
					}
					defer os.RemoveAll(mine)
					return do()
				})
			}
			return []escape.Try{
				try("configuration", func() error { return below(git+"/config", "FS-09a") }),
				try("a hook", func() error { return below(git+"/hooks/pre-commit", "FS-09a") }),
				try("a head", func() error { return below(git+"/HEAD", "FS-09a") }),
				try("a pointer", func() error {
					if err := os.Remove(git); err != nil && !in.Control {
						return err
					}
					return create(git, "FS-09a")
				}),
				try("a link", func() error { return os.Symlink("mine", git) }),
				try("a folder renamed", func() error {
					if err := below(mine+"/config", "FS-09a"); err != nil {
						return err
					}
					return os.Rename(mine, git)
				}),
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			defer clean(dir(w.Inside))
			res, err := w.Exec("git", "-C", dir(w.Inside), "rev-parse", "--git-dir")
			made, merr := w.Exec("git", "init", "-q", dir(w.Inside))
			again, aerr := w.Exec("git", "-C", dir(w.Inside), "rev-parse", "--git-dir")
			return []escape.Finding{
				found("git of the host finds no repository", err == nil && res.Status != 0, "%v %s", err, res.Stdout),
				found("control: one that the host makes it finds", merr == nil && made.Status == 0 && aerr == nil && again.Status == 0, "%s %s", made.Stderr, again.Stderr),
			}
		},
	}
}
