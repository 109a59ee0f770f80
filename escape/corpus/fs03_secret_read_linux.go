package corpus

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/escape"
)

func fs03() escape.Case {
	return escape.Case{
		ID: "FS-03", Class: "secret read", Attack: "read keys, tokens, logins and browser profiles; look through every readable file of / for their text",
		Source: "the first half of the lethal trifecta", Layers: []string{"view"}, Slow: 60,
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, name := range escape.SecretFiles() {
				out = append(out, on("read "+name, func() error { return secrets(filepath.Join(in.Home, name)) }))
			}
			root := "/"
			if in.Control {
				root = in.Base
			}
			return append(out, on("search /", func() error { return search(root, "CANARY-"+"SECRET") }))
		},
	}
}

// search looks for a text in every small file that can be read.
func search(root, text string) error {
	skip := []string{"/proc", "/sys", "/usr", "/lib", "/lib64", "/opt", "/bin", "/sbin", "/dev"}
	errFound := errors.New("found")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // what cannot be read tells nothing
		case d.IsDir() && slices.Contains(skip, path):
			return fs.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(path, "cloister-escape"):
			return nil
		}
		if fi, err := d.Info(); err != nil || fi.Size() > 1<<20 {
			return nil // gone meanwhile
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(text)) {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return errors.Join(err, escape.ErrNothing)
}
