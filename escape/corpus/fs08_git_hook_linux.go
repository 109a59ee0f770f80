package corpus

import (
	"os"
	"syscall"

	"cloister/escape"
)

// fixed are the answers of what is held in its place: read-only, or a mount
// that cannot be renamed or removed.
func fixed() []error {
	return []error{syscall.EROFS, syscall.EBUSY, syscall.EACCES, syscall.EPERM, syscall.EXDEV, syscall.EEXIST, syscall.ENOTEMPTY}
}

func held(name string, do func() error) escape.Try {
	return escape.Try{Name: name, Do: do, Held: fixed()}
}

// away renames a folder, and back where that came off: other cases need it.
func away(path string) error {
	if err := os.Rename(path, path+"2"); err != nil {
		return err
	}
	return os.Rename(path+"2", path)
}

func fs08() escape.Case {
	return escape.Case{
		ID: "FS-08", Class: "git hook, present", Attack: "write a hook, replace the hooks folder, move it or .git away, make its files executable",
		Source: "CVE-2026-48124, CVE-2026-26268", Layers: []string{"protect"},
		Tries: func(in escape.Inside) []escape.Try {
			git := in.Project + "/.git"
			return []escape.Try{
				held("write pre-commit", func() error { return create(git+"/hooks/pre-commit", "FS-08") }),
				held("link a hook", func() error { return os.Symlink("../../main.go", git+"/hooks/post-checkout") }),
				held("rename a sample", func() error { return os.Rename(git+"/hooks/pre-push.sample", git+"/hooks/pre-push") }),
				held("move a file in", func() error {
					if err := create(in.Project+"/hook", "FS-08"); err != nil {
						return err
					}
					defer os.Remove(in.Project + "/hook")
					return os.Rename(in.Project+"/hook", git+"/hooks/post-merge")
				}),
				held("move hooks away", func() error { return away(git + "/hooks") }),
				held("move .git away", func() error { return away(git) }),
			}
		},
	}
}
