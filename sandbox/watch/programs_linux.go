package watch

import (
	"context"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/standin"
	"cloister/sandbox"
)

// summed is the digest of a program, as long as nothing of it changes.
type summed struct {
	inode   uint64
	size    int64
	changed unix.Timespec
	digest  string
}

// program gives the asked program at a path; lets reports that a person has allowed it, in whichever command.
func (a *asking) program(at string) (one sandbox.Asked, lets, asked bool) {
	if a == nil {
		return one, false, false
	}
	for _, one := range a.files[at] {
		if one.StandIn != "" {
			return one, standin.Filled(string(one.StandIn)), true
		}
	}
	return one, false, false
}

// closes reports whether a path is that of a program that no person has allowed yet.
func (a *asking) closes(name string) bool {
	_, lets, asked := a.program(path.Clean(name))
	return asked && !lets
}

// execute has an execution wait for a person. What lies at its path is empty until one has allowed it, and
// then has the content that was shown. The kernel reads the path once more, so that whatever it
// says by then it reaches a program that may be executed anyway, or an empty one.
func (a *asking) execute(n *notice, at string) fate {
	one, lets, asked := a.program(at)
	if !asked || lets {
		return passes
	}
	return a.later(n, func(n *notice) error { return a.fill(n, one, at) })
}

// fill asks about one execution, and lets it go on. With an error the call fails.
func (a *asking) fill(n *notice, about sandbox.Asked, at string) error {
	q, err := a.begin(n, about, false)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := executable(q.file); err != nil {
		return err
	}
	if q.Digest, err = a.sum(q.ctx, at, q.file); err != nil {
		return err
	}
	q.Execute, q.RunBy = true, interpreterOf(q.file)
	if err := a.ask(q.ctx, q.FileQuestion); err != nil {
		return err
	}
	a.looks.Lock()
	err = standin.Fill(string(about.StandIn), q.file, q.Digest)
	a.looks.Unlock()
	if err == nil && !a.again(n, at) {
		err = unix.EACCES
	}
	return err
}

// executable refuses a file that this user may not execute either.
func executable(f *os.File) error {
	return unix.Access("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), unix.X_OK)
}

// sum is the digest of a program. It is not read anew each time that it is tried; what is shown after a yes is.
func (a *asking) sum(ctx context.Context, at string, f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	now := summed{inode: st.Ino, size: st.Size, changed: st.Ctim}
	a.mu.Lock()
	was, ok := a.sums[at]
	a.mu.Unlock()
	if ok {
		now.digest = was.digest
		if now == was {
			return was.digest, nil
		}
	}
	var err error
	now.digest, err = a.look(ctx, f, standin.MostBytes, standin.Digest)
	if err == nil && time.Since(time.Unix(st.Ctim.Unix())) > time.Second {
		a.mu.Lock()
		a.sums[at] = now // a change within the clock's step would not be seen
		a.mu.Unlock()
	}
	return now.digest, err
}

// again lets an execution go on whose program a person has allowed, if its path is still that.
func (w *Watch) again(n *notice, at string) bool {
	w.looking.Lock()
	defer w.looking.Unlock()
	for _, c := range w.uses[n.nr] {
		if c.use != executes {
			continue
		}
		now, _, err := w.path(n, c)
		s := seen{use: executes, path: at, words: strings.Join(words(int(n.tid), n.args[c.argv]), "\x00")}
		if err != nil || now != at || !waits(int(w.listener.Fd()), n.id) {
			return false
		}
		w.table.let(at)
		w.note(n, s, executes)
		goOn(int(w.listener.Fd()), n.id)
		return true
	}
	return false
}
