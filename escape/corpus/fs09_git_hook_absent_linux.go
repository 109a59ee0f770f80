package corpus

import (
	"os"
	"path/filepath"

	"cloister/escape"
)

// plantedHook runs when anybody commits.
const plantedHook = "#!/bin/sh\ntouch \"$ESCAPE_MARK\"\n"

func fs09() escape.Case {
	return escape.Case{
		ID: "FS-09", Class: "git hook, absent", Attack: "start without .git/hooks, then make it with a hook; commit on the host afterwards",
		Source: "CVE-2026-25725 (a protected path that is missing at the start)", Layers: []string{"protect"},
		Prepare: func(w *escape.World) error { return os.RemoveAll(w.Project + "/.git/hooks") },
		Tries: func(in escape.Inside) []escape.Try {
			hook := in.Project + "/.git/hooks/pre-commit"
			return []escape.Try{
				held("make the folder and a hook", func() error {
					if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
						return err
					}
					return os.WriteFile(hook, []byte(plantedHook), 0o755)
				}),
				held("replace the folder by one with a hook", func() error {
					dir := in.Project + "/hooks-of-mine"
					if err := os.MkdirAll(dir, 0o755); err != nil {
						return err
					}
					defer os.RemoveAll(dir)
					if in.Control {
						if err := os.RemoveAll(filepath.Dir(hook)); err != nil {
							return err
						}
					}
					return os.Rename(dir, filepath.Dir(hook))
				}),
				held("replace it by a link", func() error {
					if err := os.Remove(filepath.Dir(hook)); err != nil {
						return err
					}
					return os.Symlink(in.Project, filepath.Dir(hook))
				}),
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			mark := w.Base + "/hook-ran"
			w.Env["ESCAPE_MARK"] = mark
			defer delete(w.Env, "ESCAPE_MARK")
			res, err := w.Exec("git", "commit", "-q", "--allow-empty", "-m", "on the host")
			if err != nil || res.Status != 0 {
				return []escape.Finding{found("commit on the host", false, "%v %s", err, res.Stderr)}
			}
			quiet := !exists(mark)
			hook := w.Project + "/.git/hooks/pre-commit"
			if err := w.Write(hook, plantedHook); err != nil {
				return escape.NoHost("plant the control", err)
			}
			if err := os.Chmod(hook, 0o755); err != nil {
				return escape.NoHost("plant the control", err)
			}
			res, err = w.Exec("git", "commit", "-q", "--allow-empty", "-m", "control")
			ran := exists(mark)
			clean(mark, hook)
			return []escape.Finding{
				found("no hook ran on the host", quiet, "%s", mark),
				found("control: a planted hook runs", ran, "%v %s", err, res.Stderr),
			}
		},
	}
}
