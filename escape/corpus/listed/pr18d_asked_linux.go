package listed

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// askedPrograms are programs about which a person is asked who is not there.
func askedPrograms() escape.Case {
	return escape.Case{
		ID: "PR-18d", Class: "program that is asked about", Attack: "a program about which a person would be asked, and nobody is: executed by other names, links, descriptors, where its stand-in lies; by an interpreter, by its loader; written, given a mode, moved; a link and the words of a call swapped while it waits",
		Source: "Cedar's ask", Layers: []string{"view", "listener"}, Except: elsewhere(),
		Prepare: prepareClosed, Flags: under("programs.cedar", func(_ *escape.World, l world) string {
			return fmt.Sprintf("@ask permit (principal, action == Action::\"ProcessExec\", resource) when { resource in [File::%q, File::%q, File::%q, File::%q] };\n", l.copied, l.base+"/asked", l.base+"/asked-too", forbidden)
		}),
		Tries: func(in escape.Inside) []escape.Try {
			l := closedOutside(in)
			script, fine := l.base+"/asked", l.base+"/open/script"
			var out []escape.Try
			for name, do := range executing(l) {
				out = append(out, closedTo("execute "+name, in.Self, l.copied, do))
			}
			for name, do := range scripts() {
				out = append(out, closedTo("run "+name, fine, script, do))
			}
			for name, do := range writing() {
				out = append(out, closedTo("write "+name, l.out+"/kept", script+"-too", do))
			}
			for name, do := range moving(l) {
				out = append(out, closedTo("move "+name, l.out+"/kept", script, do))
			}
			shown := []string{"/run/.asked/0", "/run/.asked/1"}
			if in.Control {
				shown = []string{l.copied, l.copied}
			}
			for i, at := range shown {
				name := fmt.Sprintf(" stand-in %d", i)
				out = append(out, closedTo("execute"+name, in.Self, at, start), closedTo("give a mode to"+name, l.out+"/kept", at, func(p string) error { return os.Chmod(p, 0o755) }),
					closedTo("write"+name, l.out+"/kept", at, func(p string) error { return closed(unix.Open(p, unix.O_WRONLY|unix.O_CLOEXEC, 0)) }))
			}
			return append(out, closedTo("by its loader", harmless, forbidden, loaded),
				escape.Try{Name: "a link that is swapped", Do: func() error { return swappedProgram(l) }, Held: []error{syscall.EACCES, escape.ErrNothing}})
		},
	}
}

func scripts() map[string]way {
	run := func(words ...string) way {
		return func(p string) error {
			err := says(append(words, p)...)
			if err != nil && err.Error() == `said ""` {
				return escape.ErrNothing // it was empty
			}
			return err
		}
	}
	return map[string]way{
		"as a script": run(), "by an interpreter": run("/usr/bin/sh"),
		"by an interpreter's own reading": run("/usr/bin/sh", "-c", `. "$0"`),
	}
}

// swappedProgram executes a link again and again that leads to a permitted script and to one that is asked about.
func swappedProgram(l world) error {
	link, next := l.out+"/swapped", l.out+"/swapped-next"
	defer os.Remove(link)
	swap := func(to string) {
		_ = os.Symlink(to, next)
		_ = os.Rename(next, link)
	}
	swap(l.base + "/open/fine")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				swap([]string{l.base + "/asked", l.base + "/open/fine"}[i%2])
			}
		}
	}()
	defer func() { close(stop); <-done }()
	var last error
	for range 150 {
		if last = says(link); last == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %v", escape.ErrNothing, last) //nolint:errorlint // whichever it met last
}
