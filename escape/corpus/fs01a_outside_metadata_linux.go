package corpus

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs01a() escape.Case {
	return escape.Case{
		ID: "FS-01a", Class: "outside metadata", Attack: "chmod, utimes, setxattr and stat of files outside, which Landlock does not cover",
		Source: "kernel landlock.rst, go-landlock", Layers: []string{"view"},
		Tries: func(in escape.Inside) []escape.Try {
			file := in.Outside + "/canary"
			return []escape.Try{
				on("stat", func() error { _, err := os.Stat(file); return err }),
				on("chmod", func() error { return os.Chmod(file, 0o666) }),
				on("utimes", func() error { return os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)) }),
				on("setxattr", func() error { return unix.Setxattr(file, "user.escape", []byte("FS-01a"), 0) }),
				on("list the folder", func() error { _, err := os.ReadDir(in.Outside); return err }),
			}
		},
	}
}
