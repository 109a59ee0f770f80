package corpus

import (
	"strings"

	"cloister/escape"
)

func pr01b() escape.Case {
	return escape.Case{
		ID: "PR-01b", Class: "ptrace of another command", Attack: "trace, read and write what a person runs beside the payload by exec: each command has a Landlock domain of its own",
		Source: "HARDENING 5.1 (ptrace)", Layers: []string{string(escape.Landlock)},
		Host: func(w *escape.World) []escape.Finding {
			ready, at := w.Project+"/ready01b", w.Project+"/pid01b"
			defer clean(ready, at)
			done := make(chan escape.Result, 1)
			go func() {
				done <- w.Outcome([]string{"--name", "tr01b", "--expose", w.Self, "--timeout", "90s"}, w.Self, "trace", ready, at)
			}()
			there := w.Until(patient, func() bool { return exists(ready) })
			exec := make(chan error, 1)
			go func() {
				_, err := w.Exec(w.Cloister, "exec", "tr01b", "--", "sh", "-c", "echo $$ > "+at+".new && mv "+at+".new "+at+" && exec sleep 90")
				exec <- err
			}()
			ended := <-done
			if err := <-exec; err != nil {
				return escape.NoHost("run another command", err)
			}
			said := func(words string) bool { return strings.Contains(ended.Stdout, words+"\n") }
			return []escape.Finding{
				found("the payload was ready", there, "status %d: %s", ended.Status, ended.Stderr),
				found("control: its own child is traced", said("child: seize <nil>") && said("child: readv <nil>"), "%s%s", ended.Stdout, ended.Stderr),
				found("the other command is not traced", said("other: seize operation not permitted"), "%s%s", ended.Stdout, ended.Stderr),
				found("its memory is not read", said("other: readv operation not permitted"), "%s%s", ended.Stdout, ended.Stderr),
				found("its memory is not written", said("other: writev operation not permitted"), "%s%s", ended.Stdout, ended.Stderr),
				// A guest's /proc shows a command nothing of another.
				found("its environment is not read", said("other: environ permission denied") || said("other: environ no such file or directory"), "%s%s", ended.Stdout, ended.Stderr),
			}
		},
	}
}
