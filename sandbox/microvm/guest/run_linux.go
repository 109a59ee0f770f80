package guest

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"cloister/sandbox/landlock"
	"cloister/sandbox/microvm/walled"
	"cloister/sandbox/microvm/wire"
	"cloister/sandbox/plan"
	"cloister/sandbox/seccomp"
)

// run runs one command to its end.
func (g *guest) run(p *parts) {
	defer func() { _ = p.words.Close() }()                // its end has been said
	say := func(w wire.Word) { _ = wire.Say(p.words, w) } // a monitor that is gone ends all of this
	d, err := g.connect(p)
	if err != nil {
		say(wire.Word{Failed: err.Error()})
		return
	}
	defer d.end()
	var pid int
	var end chan unix.WaitStatus
	err = g.start(p.run, d, func(n int) { pid, end = n, g.know(n) })
	d.given()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		say(wire.Word{Exec: int(errno)})
		return
	}
	if err != nil {
		say(wire.Word{Failed: err.Error()})
		return
	}
	say(wire.Word{Started: true})
	go g.words(p, pid, d)
	ws := <-end
	if p.run.First {
		_ = unix.Kill(-1, unix.SIGKILL) // whatever else lives here ends with it
	}
	d.finish(p.run.First)
	unix.Sync()
	status := uint32(ws)
	say(wire.Word{End: &status})
	_, _ = io.Copy(io.Discard, p.words) // until it has been heard
}

// words takes what is said to a command.
func (g *guest) words(p *parts, pid int, d *descriptors) {
	for {
		var w wire.Word
		if err := wire.Hear(p.words, &w); err != nil {
			g.kill(pid, unix.SIGKILL) // whoever asked for the command is gone
			return
		}
		switch {
		case w.Signal > 0 && w.Signal < 65:
			g.kill(pid, syscall.Signal(w.Signal))
		case w.Rows > 0:
			d.resize(w.Rows, w.Cols)
		}
	}
}

// start has the command executed behind the walls that native has, as far as this kernel has
// them.
func (g *guest) start(r *wire.Run, d *descriptors, started walled.Started) error {
	if fi, err := os.Stat(r.Dir); err != nil || !fi.IsDir() {
		return errors.Join(err, errors.New("go to "+r.Dir+": it is no folder inside"))
	}
	filter, err := seccomp.Filter(true)
	if err != nil {
		return err
	}
	w := walled.Walls{User: r.User, Filter: filter}
	if abi, err := landlock.Version(); err == nil {
		defer held(r.Writable)()
		w.Landlock = landlock.Rules(abi, r.Writable)
	}
	return walled.Start(w, walled.Program{
		Files: plan.Candidates(r.Argv[0], r.Env), Argv: r.Argv, Env: r.Env, Dir: r.Dir, Std: d.inside[:], Terminal: d.tty,
	}, g.reaper, started)
}

// held mounts what the view has at folders, until the result is called. A mount of the view's server comes
// with the first use; a rule that is made before names the folder that lies below it, and grants nothing.
func held(folders []string) (let func()) {
	var all []int
	for _, name := range folders {
		if fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			all = append(all, fd) // a file needs no mount, and what is not there has a rule that says so
		}
	}
	return func() {
		for _, fd := range all {
			_ = unix.Close(fd) // opened to look at nothing
		}
	}
}

// descriptors are the three of a command: pipes, or a terminal of this guest, each carried by a
// stream.
type descriptors struct {
	inside  [3]*os.File
	tty     int // which of them is a terminal first; -1: none
	master  *os.File
	outputs sync.WaitGroup
	pipes   []*os.File // this side's ends of outputs
	streams []*yamux.Stream
}

func (g *guest) connect(p *parts) (*descriptors, error) {
	d := &descriptors{tty: -1}
	for i, is := range p.run.Terminal {
		if !is {
			if err := d.pipe(i, p.std[i], p.run.User); err != nil {
				return nil, err
			}
			continue
		}
		if d.tty < 0 {
			if err := d.terminal(i, p); err != nil {
				return nil, err
			}
		}
		d.inside[i] = d.inside[d.tty]
	}
	return d, nil
}

// pipe makes a descriptor that is a pipe. Its end inside is the command's user's, who may open
// it again by /dev/stdout and the like, in its own direction alone: who opened the other one would take
// what is another's to read.
func (d *descriptors) pipe(i int, s *yamux.Stream, user int) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	d.streams = append(d.streams, s)
	if i == 0 {
		d.inside[0] = r
		go func() {
			_, _ = io.Copy(w, s) // a command may read nothing of it
			_ = w.Close()
			_ = s.Close() // no process reads any more
		}()
		return errors.Join(r.Chmod(0o400), r.Chown(user, user))
	}
	d.inside[i] = w
	d.pipes = append(d.pipes, r)
	go func() {
		_, _ = io.Copy(io.Discard, s) // its end: no reader is left outside
		_ = r.Close()
	}()
	d.outputs.Go(func() {
		_, _ = io.Copy(s, r)
		_ = s.Close()
	})
	return errors.Join(w.Chmod(0o200), w.Chown(user, user))
}

// terminal opens a terminal of this guest.
func (d *descriptors) terminal(i int, p *parts) error {
	fd, err := unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	d.master = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if err := slave.Chown(p.run.User, p.run.User); err != nil {
		return err
	}
	d.inside[i], d.tty = slave, i
	d.resize(p.run.Rows, p.run.Cols)
	s := p.std[i]
	d.streams = append(d.streams, s)
	go func() { _, _ = io.Copy(d.master, s) }()
	d.outputs.Go(func() {
		_, _ = io.Copy(s, d.master) // ends with an error once no one has the other side open
		_ = s.Close()
	})
	return nil
}

func (d *descriptors) resize(rows, cols uint16) {
	if d.master == nil {
		return
	}
	c, err := d.master.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { // a terminal that is gone has no size
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

// given closes what the command has by now.
func (d *descriptors) given() {
	for i, f := range d.inside {
		if f != nil && (i == d.tty || d.tty < 0 || f != d.inside[d.tty]) {
			f.Close()
		}
	}
}

// lastOutput is how long what a command left running may still write for it.
const lastOutput = 200 * time.Millisecond

// finish passes on what was written before the command's end. all says that nothing else lives
// that could write.
func (d *descriptors) finish(all bool) {
	if !all {
		for _, f := range append(d.pipes, d.master) {
			if f != nil {
				_ = f.SetReadDeadline(time.Now().Add(lastOutput))
			}
		}
	}
	d.outputs.Wait()
}

// end closes what is left.
func (d *descriptors) end() {
	for _, s := range d.streams {
		_ = s.Close()
		_ = s.SetReadDeadline(time.Unix(1, 0))
	}
	for _, f := range append(d.pipes, d.master) {
		if f != nil {
			f.Close()
		}
	}
}
