package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"cloister/internal/vscreen"
)

// Outcome is how a look ended: by the person's keys, by the program's end, or
// neither: the other side was gone.
type Outcome struct {
	Detached bool
	End      *End
}

// ErrNoTerminal says that standard input or output is no terminal.
var ErrNoTerminal = errors.New("standard input and output have to be a terminal")

// Attach shows a program's terminal on the person's own until Ctrl-P Ctrl-Q is
// typed, the program ends, or ctx does. asked brings what of the program's questions waits
// for a person: more of them ring, the window's title says so, and a line at the bottom
// shows the oldest, which Ctrl-P and a letter answer.
func Attach(ctx context.Context, conn *net.UnixConn, in, out *os.File, asked <-chan Asked, answer Answer) (
	Outcome, error,
) {
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return Outcome{}, ErrNoTerminal
	}
	size, err := sizeOf(out)
	if err != nil {
		return Outcome{}, err
	}
	if err := sendSize(conn, size); err != nil {
		return Outcome{}, err
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return Outcome{}, fmt.Errorf("set terminal: %w", err)
	}
	l := &look{conn: conn, in: in, out: out, shown: vscreen.New(size, nil), answer: answer}
	outcome, err := l.run(ctx, asked)
	l.answering.Wait()
	_, wrote := out.Write(l.leave())
	restored := term.Restore(int(in.Fd()), state)
	if errors.Is(err, errHungUp) {
		return outcome, nil // the terminal is gone: there is no one to notify
	}
	return outcome, errors.Join(err, wrote, restored)
}

func sizeOf(f *os.File) (vscreen.Size, error) {
	cols, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return vscreen.Size{}, fmt.Errorf("size of the terminal: %w", err)
	}
	if cols == 0 || rows == 0 {
		cols, rows = 80, 24 // a terminal that does not know its size
	}
	return vscreen.Size{Cols: cols, Rows: rows}, nil
}

func sendSize(w io.Writer, size vscreen.Size) error {
	body, err := json.Marshal(size)
	if err != nil {
		return fmt.Errorf("tell the size: %w", err)
	}
	return send(w, frameSize, body)
}

// look is one terminal's side.
type look struct {
	conn    *net.UnixConn
	in, out *os.File

	answer    Answer
	answering sync.WaitGroup

	mu     sync.Mutex
	shown  *vscreen.Screen // the program's screen in this terminal, to give it back
	bar    bar
	titled bool // the title is ours
}

// The words are ours alone: nothing of the program's reaches the title.
const (
	keepTitle = "\x1b[22;2t" // xterm's stack of titles
	giveTitle = "\x1b]2;\x1b\\\x1b[23;2t"
)

// tell rings, writes the title and shows the question, between two sequences of the
// program's: the hub sends whole ones.
func (l *look) tell(a Asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := ""
	switch {
	case a.Waiting > 0 && !l.titled:
		text, l.titled = keepTitle, true
	case a.Waiting == 0 && l.titled:
		text, l.titled = giveTitle, false
	}
	if a.Waiting > 0 {
		text += fmt.Sprintf("\x1b]2;(%d) cloister asks: cloister approvals\x1b\\", a.Waiting)
	}
	if a.Waiting > l.bar.asked.Waiting {
		text += "\a"
	}
	out := append([]byte(text), l.bar.ask(a, l.shown, time.Now())...)
	_, _ = l.out.Write(out) // a terminal that is gone is noticed by show
}

// pressed takes a key behind Ctrl-P, if it answers a question.
func (l *look) pressed(ctx context.Context, key byte) (taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reply, note, taken := l.bar.press(key, time.Now())
	if note != "" {
		_, _ = l.out.Write(l.bar.say(note, l.shown))
	}
	if reply == nil || l.answer == nil {
		return taken
	}
	l.answering.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		note := l.answer(ctx, *reply)
		l.mu.Lock()
		defer l.mu.Unlock()
		if note != "" && l.bar.asked.ID == reply.ID {
			_, _ = l.out.Write(l.bar.say(note, l.shown))
		}
	})
	return true
}

// leave gives the terminal back as it was.
func (l *look) leave() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []byte
	if l.titled {
		out = append(out, giveTitle...)
	}
	return append(append(out, l.bar.lower(l.shown)...), l.shown.Leave()...)
}

// errHungUp says that the person's terminal went away.
var errHungUp = errors.New("the terminal went away")

func (l *look) run(ctx context.Context, asked <-chan Asked) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // an answer under way ends with the look
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	r, stop, err := os.Pipe()
	if err != nil {
		return Outcome{}, fmt.Errorf("read terminal: %w", err)
	}
	type last struct {
		end *End
		err error
	}
	frames := make(chan last, 1)
	go func() {
		end, err := l.show()
		frames <- last{end, err}
	}()
	typed, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		typed <- l.typing(ctx, r)
	}()
	halt := func() {
		stop.Close()
		<-done
	}
	for {
		select {
		case what := <-frames:
			halt()
			return Outcome{End: what.end}, what.err
		case err := <-typed:
			stop.Close()
			if err == nil {
				// The other side has hung up: its last words may be there yet.
				what := <-frames
				return Outcome{End: what.end}, what.err
			}
			_ = l.conn.Close()
			<-frames
			if errors.Is(err, errDetached) {
				return Outcome{Detached: true}, nil
			}
			return Outcome{}, err
		case a := <-asked:
			l.tell(a)
		case sig := <-signals:
			if sig == syscall.SIGWINCH {
				if size, err := sizeOf(l.out); err == nil {
					_ = sendSize(l.conn, size) // a broken connection ends show
				}
				continue
			}
			halt()
			_ = l.conn.Close()
			<-frames
			return Outcome{Detached: true}, nil
		case <-ctx.Done():
			halt()
			_ = l.conn.Close()
			<-frames
			return Outcome{Detached: true}, nil
		}
	}
}

// show writes what comes until the end; no end and no error mean that the other
// side is gone.
func (l *look) show() (*End, error) {
	for {
		kind, body, err := receive(l.conn)
		switch {
		case err != nil:
			return nil, nil // gone, or closed by run
		case kind == frameOutput:
			if l.draw(body) != nil {
				return nil, errHungUp
			}
		case kind == frameNote:
			l.note(string(body))
		case kind == frameEnd:
			end := &End{}
			if err := json.Unmarshal(body, end); err != nil {
				return nil, fmt.Errorf("read the end: %w", err)
			}
			return end, nil
		}
	}
}

// note shows a line until a key is pressed or a question takes its place.
func (l *look) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(l.bar.tell(text, l.shown)) // a terminal that is gone is noticed by the next output
}

// typedKeys takes the line of a note away.
func (l *look) typedKeys() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bar.news != "" {
		_, _ = l.out.Write(l.bar.tell("", l.shown))
	}
}

func (l *look) draw(body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if size, err := sizeOf(l.out); err == nil {
		l.shown.Resize(size)
	}
	l.shown.Draw(body)
	_, err := l.out.Write(l.bar.output(body, l.shown))
	return err
}

// errDetached says that the keys to detach were typed.
var errDetached = errors.New("detached")

// typing passes on what is typed. It waits on both the terminal and stop, so
// that no byte typed afterwards is taken from the shell.
func (l *look) typing(ctx context.Context, stop *os.File) error {
	defer stop.Close()
	buf := make([]byte, 4096)
	fd := int(l.in.Fd())
	keys := detachKeys{other: func(key byte) bool { return l.pressed(ctx, key) }}
	for {
		wait := -1
		if keys.held {
			wait = int(heldFor.Milliseconds())
		}
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(stop.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, wait)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read terminal: %w", err)
		case ready[1].Revents != 0:
			return nil
		case n == 0:
			if send(l.conn, frameInput, keys.late()) != nil {
				return nil // show tells why
			}
			continue
		}
		got, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if got <= 0 {
			return errHungUp
		}
		l.typedKeys()
		out, detach := keys.pass(buf[:got])
		if len(out) > 0 && send(l.conn, frameInput, out) != nil {
			return nil
		}
		if detach {
			return errDetached
		}
	}
}
