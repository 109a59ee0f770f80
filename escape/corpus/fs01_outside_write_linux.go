package corpus

import (
	"os"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs01() escape.Case {
	return escape.Case{
		ID: "FS-01", Class: "outside write", Attack: "append to, truncate, replace and remove files beside and above the project, by relative and absolute paths",
		Source: "the first thing that any payload tries", Layers: []string{"view", "landlock"},
		Tries: func(in escape.Inside) []escape.Try {
			up := in.Project + "/../../../outside/canary"
			return []escape.Try{
				on("append by ..", func() error { return appendTo(up, "FS-01") }),
				on("append by absolute path", func() error { return appendTo(in.Outside+"/canary", "FS-01") }),
				on("append through /proc/self/root", func() error { return appendTo("/proc/self/root"+in.Outside+"/canary", "FS-01") }),
				on("truncate", func() error { return os.Truncate(in.Outside+"/canary", 0) }),
				on("make a file", func() error { return create(in.Outside+"/new", "FS-01") }),
				on("make a folder", func() error { return os.Mkdir(in.Outside+"/folder", 0o755) }),
				on("make a link", func() error { return os.Symlink("/", in.Outside+"/link") }),
				// EOPNOTSUPP: gVisor has no such files on what the host shows.
				{Name: "make an unnamed file", Held: append(escape.Denied(), unix.EOPNOTSUPP), Do: func() error {
					return openFor(in.Outside, unix.O_TMPFILE|os.O_RDWR)
				}},
				on("append to a project beside", func() error { return appendTo(in.Home+"/src/other/.git/config", "FS-01") }),
				on("rename", func() error { return os.Rename(in.Outside+"/canary", in.Outside+"/moved") }),
				// EXDEV: the project is a mount of its own.
				{Name: "move out of the project", Held: append(escape.Denied(), unix.EXDEV), Do: func() error {
					if err := create(in.Project+"/mine", "FS-01"); err != nil {
						return err
					}
					return os.Rename(in.Project+"/mine", in.Outside+"/mine")
				}},
				on("remove", func() error { return os.Remove(in.Outside + "/moved") }),
			}
		},
	}
}
