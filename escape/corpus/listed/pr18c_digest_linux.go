package listed

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"cloister/escape"
)

// A program that is forbidden by its digest, and one that is not.
const (
	forbidden = "/usr/bin/id"
	harmless  = "/usr/bin/true"
)

func digested() escape.Case {
	except := elsewhere()
	except[escape.WithImage] = "refused by a line: an image has a digest itself"
	return escape.Case{
		ID: "PR-18c", Class: "program by its digest", Attack: "a program that is forbidden by its digest: by other names, links, descriptors and places, by its loader, mapped",
		Source: "Cedar's digests", Layers: []string{"view", "listener"}, Except: except,
		Prepare: prepareClosed, Flags: under("digest.cedar", func(*escape.World, world) string {
			text, _ := os.ReadFile(forbidden) // what cannot be read is another program, and the try fails
			return fmt.Sprintf("forbid (principal, action == Action::\"ProcessExec\", resource == Program::\"%s@sha256:%x\");\n", forbidden, sha256.Sum256(text))
		}),
		Tries: func(in escape.Inside) []escape.Try {
			l := closedOutside(in)
			var out []escape.Try
			for name, do := range executing(l) {
				out = append(out, closedTo("execute "+name, harmless, forbidden, do))
			}
			return append(out, closedTo("by its loader", harmless, forbidden, loaded), closedTo("read", harmless, forbidden, texts(l)["by its name"]))
		},
	}
}

// loaded has the loader map a program, and run it.
func loaded(path string) error {
	loader := map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1"}[runtime.GOARCH]
	if err := exec.CommandContext(context.Background(), loader, "--list", path).Run(); err != nil {
		return fmt.Errorf("%w: %v", escape.ErrNothing, err) //nolint:errorlint // the loader's own answer
	}
	return nil
}
