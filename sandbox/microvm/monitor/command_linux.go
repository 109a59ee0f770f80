package monitor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"cloister/sandbox/microvm/wire"
)

// forwarded turns signals into words for a command. They end with the process.
func forwarded(signals <-chan os.Signal, c Command) <-chan wire.Word {
	out := make(chan wire.Word)
	go func() {
		for s := range signals {
			sig := s.(syscall.Signal) // of this system, all are
			if sig == unix.SIGWINCH {
				if w, ok := sizeOf(c); ok {
					out <- w
				}
				continue
			}
			if sig != unix.SIGCHLD && sig != unix.SIGURG && sig != unix.SIGPIPE { // those are its own
				out <- wire.Word{Signal: int(sig)}
			}
		}
	}()
	return out
}

// sizeOf is the size of the terminal that this process has.
func sizeOf(c Command) (wire.Word, bool) {
	for i, is := range c.Terminal {
		if !is {
			continue
		}
		size, err := unix.IoctlGetWinsize(i, unix.TIOCGWINSZ)
		if err == nil {
			return wire.Word{Rows: max(size.Row, 1), Cols: size.Col}, true
		}
	}
	return wire.Word{}, false
}

// command runs a command in the guest with three descriptors, which it closes, to its end.
func (b *box) command(r *report, c Command, std [3]*os.File, said <-chan wire.Word) error {
	b.mu.Lock()
	b.last++
	c.ID = b.last
	b.mu.Unlock()
	const streams = 4 // its words, and its descriptors
	b.own.Add(streams)
	defer b.own.Add(-streams)
	words, err := wire.Open(b.s, wire.Head{Run: &c})
	if err != nil {
		return err
	}
	defer func() { _ = words.Close() }() // its end has been read, or the guest is gone
	in, err := newReading()
	if err != nil {
		return errors.Join(err, words.Close())
	}
	outputs, carried, err := b.carry(c, std, in)
	defer func() {
		in.end()
		let(std, carried)
	}()
	if err != nil {
		return err
	}
	if w, ok := sizeOfFiles(c, std); ok {
		if err := wire.Say(words, w); err != nil {
			return err
		}
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case w, ok := <-said:
				if !ok || wire.Say(words, w) != nil {
					_ = words.Close() // who asked for the command is gone: so is the command
					return
				}
			case <-ended:
				return
			}
		}
	}()
	for {
		var w wire.Word
		if err := wire.HearWord(words, &w); err != nil {
			return fmt.Errorf("the guest is gone: %w", err)
		}
		if w.End != nil {
			outputs()
		}
		if r.word(w) {
			return nil
		}
	}
}

func sizeOfFiles(c Command, std [3]*os.File) (wire.Word, bool) {
	for i, is := range c.Terminal {
		if !is {
			continue
		}
		raw, err := std[i].SyscallConn() // its output may have ended, and have closed it
		if err != nil {
			continue
		}
		var size *unix.Winsize
		if raw.Control(func(fd uintptr) { size, err = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) }) == nil && err == nil {
			return wire.Word{Rows: max(size.Row, 1), Cols: size.Col}, true
		}
	}
	return wire.Word{}, false
}

// let ends what carried a command's descriptors: a guest that says of a command that it has failed may go on to
// write, and what is not closed here counts as the guest's (accept).
func let(std [3]*os.File, streams []*yamux.Stream) {
	for _, f := range std {
		_ = f.Close() // it may be closed already
	}
	for _, s := range streams {
		_ = s.SetReadDeadline(time.Unix(1, 0)) // a stream's Close ends no Read of its own
	}
	for _, s := range streams {
		_ = s.Close()
	}
}

// carry opens a stream for each descriptor that is not the same terminal as one before. wait
// waits until all that was written has been passed on.
func (b *box) carry(c Command, std [3]*os.File, in *reading) (wait func(), streams []*yamux.Stream, err error) {
	var done []chan struct{}
	terminal := false
	for i, f := range std {
		if c.Terminal[i] && terminal {
			continue
		}
		s, err := wire.Open(b.s, wire.Head{Std: &wire.Std{Run: c.ID, FD: i}})
		if err != nil {
			return nil, streams, err
		}
		streams = append(streams, s)
		switch {
		case c.Terminal[i]:
			terminal = true
			if err := raw(f); err != nil {
				return nil, streams, fmt.Errorf("make the terminal raw: %w", err)
			}
			in.of(f, func(r io.Reader) { _, _ = io.Copy(s, r) })
			done = append(done, output(f, s))
		case i == 0:
			in.of(f, func(r io.Reader) { input(s, f, r) })
		default:
			done = append(done, output(f, s))
		}
	}
	return func() {
		for _, d := range done {
			<-d
		}
	}, streams, nil
}

// input passes on what is to be read, until its end or until no process reads inside.
func input(s *yamux.Stream, f *os.File, r io.Reader) {
	go func() {
		_, _ = io.Copy(io.Discard, s)
		_ = f.Close()
	}()
	_, _ = io.Copy(s, r)
	_ = s.Close()
}

// output passes on what is written. When no reader is left outside, the guest sees the end of
// the other direction.
func output(f *os.File, s *yamux.Stream) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(f, s); err != nil {
			_ = s.Close()
			_, _ = io.Copy(io.Discard, s)
		}
		_ = f.Close() // its reader sees the end as soon as the command has closed it
	}()
	return done
}

// raw lets every byte through: the guest's own terminal makes signals of them.
func raw(f *os.File) error {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
}

// asked is what is asked for at the door, with the descriptors beside it.
type asked struct {
	Command Command   `json:"command"`
	Word    wire.Word `json:"word"`
}

// doors serves further commands.
func (b *box) doors() error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(b.o.State, door), Net: "unix"})
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				b.over <- fmt.Errorf("serve commands: %w", err)
				return
			}
			go func() {
				defer func() { _ = c.Close() }() // whoever asked has its answer
				if err := b.more(c); err != nil {
					_ = wire.Say(c, wire.Word{Failed: err.Error()})
				}
			}()
		}
	}()
	return nil
}

// more runs the command that is asked for, with the descriptors that come along.
func (b *box) more(c *net.UnixConn) error {
	space := make([]byte, unix.CmsgSpace(4*4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return err
	}
	list, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil || len(list) != 1 {
		return errors.Join(err, errors.New("no descriptors came"))
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 4 {
		return errors.Join(err, errors.New("four descriptors are needed"))
	}
	var std [3]*os.File
	for i := range std {
		std[i] = os.NewFile(uintptr(fds[i]), "standard descriptor")
	}
	r := &report{os.NewFile(uintptr(fds[3]), "report")}
	defer r.to.Close()
	var a asked
	if err := wire.Hear(c, &a); err != nil {
		return err
	}
	said := make(chan wire.Word)
	go func() {
		defer close(said)
		for {
			var w wire.Word
			if err := wire.Hear(c, &w); err != nil {
				return
			}
			said <- w
		}
	}()
	return b.command(r, a.Command, std, said)
}

// ask asks for one more command at the box's door, and stays until it has ended.
func ask(r *report, o Order) error {
	signals := notified()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(o.State, door), Net: "unix"})
	if err != nil {
		return fmt.Errorf("find the guest: %w", err)
	}
	defer func() { _ = c.Close() }() // the command is over
	if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(0, 1, 2, int(r.to.Fd())), nil); err != nil {
		return err
	}
	if err := wire.Say(c, asked{Command: o.Command}); err != nil {
		return err
	}
	go func() {
		for w := range forwarded(signals, o.Command) {
			_ = wire.Say(c, w) // a monitor that is gone has ended the command
		}
	}()
	var w wire.Word
	if err := wire.Hear(c, &w); err == nil && w.Failed != "" {
		return errors.New(w.Failed)
	}
	return nil
}
