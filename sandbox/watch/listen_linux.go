package watch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
	"cloister/sandbox"
)

// A Watch is that of one box.
type Watch struct {
	listener *os.File
	table    *table
	queue    chan sandbox.FileEvent
	reported chan struct{} // closed when the last event was reported
	begun    atomic.Bool
	first    int    // the first process, whose calls are the driver's
	dir      string // where the command begins
	pending  string // what the command may be: the file that was tried last
	ran      bool   // the command was executed, as far as it was seen
	root     int    // as whoever is inside sees it; -1 until one was seen
	fixed    bool   // what was found last lies where the view lets nothing be written
	uses     map[int32][]call
	asking   *asking // nil where a person is asked about nothing

	looking sync.Mutex // one call is looked at a time; it holds all above

	mu   sync.Mutex
	stop int // an eventfd that GiveUp writes to; -1 when nothing is served any more
}

// Begin serves a listener until nothing is left that it is about, which it then closes.
// tell is given what is seen, by one goroutine, in order; ask asks a person, and may be nil where about
// asks nothing. The calls of process first are
// the driver's own, as are all before Started.
func Begin(listener *os.File, first int, dir string, about sandbox.Watched, tell func(sandbox.FileEvent),
	ask Ask) *Watch {
	w := &Watch{
		listener: listener, queue: make(chan sandbox.FileEvent, 4096), reported: make(chan struct{}),
		first: first, dir: dir, root: -1, uses: map[int32][]call{},
	}
	var err error
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		w.stop = -1 // no descriptor is left: it goes on to its end
	}
	w.table = newTable(about, func(e sandbox.FileEvent) { w.queue <- e })
	w.asking = newAsking(listener, about, ask, w.again)
	for _, c := range calls() {
		w.uses[int32(c.nr)] = append(w.uses[int32(c.nr)], c)
	}
	go func() {
		defer close(w.reported)
		for e := range w.queue {
			tell(e)
		}
	}()
	go w.serve()
	return w
}

// Started says that from here on calls are the command's.
func (w *Watch) Started() { w.begun.Store(true) }

// GiveUp serves no more. What still runs can open and execute nothing of what the filter asks
// about (ENOSYS): it is for a command that joined and left something running.
func (w *Watch) GiveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop >= 0 {
		_, _ = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 1}) // full where it was said before
	}
}

// Close waits until all has been reported; the box must be over, or given up.
func (w *Watch) Close() error {
	<-w.reported
	return nil
}

// serve answers calls. It has a thread of its own, since it waits in the kernel.
func (w *Watch) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd := int(w.listener.Fd())
	swift(fd)
	var n notice
	for w.next(fd, &n) {
		became := passes
		if w.begun.Load() && int(n.tid) != w.first {
			w.looking.Lock()
			became = w.look(&n)
			w.looking.Unlock()
		}
		switch became {
		case refused:
			refuse(fd, n.id)
		case held: // it is answered when a person has
		case passes:
			goOn(fd, n.id)
		}
	}
	w.asking.end()
	w.listener.Close()
	w.mu.Lock()
	if w.stop >= 0 {
		unix.Close(w.stop)
		w.stop = -1
	}
	w.mu.Unlock()
	w.settle()
	w.table.flush()
	close(w.queue)
	if w.root >= 0 {
		unix.Close(w.root)
	}
}

// next takes a call that waits; none comes any more where it says so.
func (w *Watch) next(fd int, n *notice) bool {
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(w.stop), Events: unix.POLLIN}}
		_, err := unix.Poll(ready, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil, ready[1].Revents != 0, ready[0].Revents&unix.POLLIN == 0: // hung up: nothing is left inside
			return false
		}
		switch err := receive(fd, n); {
		case err == nil:
			return true
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // whoever called is gone
		default:
			return false
		}
	}
}

// fate is what becomes of a call.
type fate uint8

const (
	passes  fate = iota
	refused      // whatever its caller's memory says by now
	held         // until a person has answered
)

// look notes what a call is about. It is refused where a pattern forbids it and, where patterns are
// kept, where its path cannot be read. It is held where a person is asked about it.
func (w *Watch) look(n *notice) fate {
	no := false
	var names []string
	for _, c := range w.uses[n.nr] {
		if c.from && !w.table.byPattern() {
			continue
		}
		if c.from && n.nr == unix.SYS_LINKAT {
			c.nofollow = n.args[4]&unix.AT_SYMLINK_FOLLOW == 0
		}
		at, lies, err := w.path(n, c)
		if names = append(names, at); lies != folder && len(names) == 1 {
			names[0] = "" // what is no folder is named itself
		}
		if w.root >= 0 {
			w.settle()
		}
		if err == nil && c.use == executes && at == "" && w.asking.closes(w.pending) {
			return refused // the command itself, as below
		}
		if err == nil && (at == "" || c.fresh && lies != nothing) {
			continue // nothing lies there, and nothing is made
		}
		s := seen{use: useOf(n, c, lies), path: at}
		if s.use == makes && lies == folder && !c.nofollow {
			s.path += "/" // a file without a name
		}
		u := s.use
		if err == nil && c.use == reads {
			asked := w.asking.hold(n, at, n.args[c.flags])
			if asked == held {
				return held
			}
			no = asked == refused
		}
		if err == nil && c.use == executes {
			asked := refused // the command itself is not held: a start takes its time, and no person's
			if w.ran || !w.asking.closes(at) {
				asked = w.asking.execute(n, at)
			}
			if asked == held {
				return held
			}
			no, w.ran = asked == refused, w.ran || asked == passes
		}
		if _, lets, _ := w.asking.program(at); lets {
			w.table.let(at)
		}
		no = no || w.table.refuses(s, err)
		if c.from && !w.table.refuses(s, err) {
			if s.use = reads; !w.table.refuses(s, err) {
				continue
			}
			no = true
		}
		if err == nil && w.fixed && (u == writes || u == makes) && w.table.verdict(s) == nil {
			continue // it fails whatever a list says: a policy learned from the record would permit what was never done
		}
		if err == nil && c.argv > 0 {
			s.words = strings.Join(words(int(n.tid), n.args[c.argv]), "\x00")
		}
		switch {
		case !waits(int(w.listener.Fd()), n.id):
			return refused // it is gone, and what was read may be of another process with its number
		case err != nil:
			w.table.unread++
			continue
		}
		w.note(n, s, u)
	}
	if no || w.moves(n, names) {
		return refused
	}
	return passes
}

// caller is who calls.
func caller(n *notice) func() (string, int) {
	return func() (string, int) {
		program, _ := os.ReadFile("/proc/" + strconv.Itoa(int(n.tid)) + "/comm") // it may be gone
		return strings.TrimSpace(string(program)), int(n.tid)
	}
}

// note notes a use of a path, and of a program what runs it.
func (w *Watch) note(n *notice, s seen, u use) {
	w.table.add(s, caller(n))
	if u != executes {
		return
	}
	for _, by := range w.interpreters(s.path) {
		w.table.add(seen{use: executes, path: by}, func() (string, int) { return path.Base(s.path), int(n.tid) })
	}
}

// moves reports whether a call moves a folder to where a pattern does not name what is in it any more.
func (w *Watch) moves(n *notice, names []string) bool {
	if len(names) != 2 || names[0] == "" || names[1] == "" || !w.table.byPattern() {
		return false
	}
	exchanged := n.nr == unix.SYS_RENAMEAT2 && n.args[4]&unix.RENAME_EXCHANGE != 0
	for _, p := range w.table.globs {
		if p.Gains(names[0], names[1]) || exchanged && p.Gains(names[1], names[0]) {
			return true
		}
	}
	return false
}

// lying is what lies at the path that a call names.
type lying uint8

const (
	file lying = iota
	folder
	nothing // yet
)

// useOf is how a call uses its path.
func useOf(n *notice, c call, lies lying) use {
	var flags uint64
	if c.flags >= 0 {
		flags = n.args[c.flags]
	}
	switch {
	case c.nofollow, lies == nothing && c.use != executes, flags&unix.O_TMPFILE == unix.O_TMPFILE:
		return makes
	case c.flags < 0:
		return c.use
	case flags&(changing&^unix.O_CREAT) != 0:
		return writes
	case lies == folder:
		return lists
	}
	return reads
}

// settle notes the command itself: whichever was tried last is the one.
func (w *Watch) settle() {
	if w.pending == "" {
		return
	}
	at := path.Clean(w.pending)
	w.pending, w.ran = "", true
	if w.root >= 0 {
		if real, err := w.resolve(at); err == nil {
			at = real
		}
	}
	none := func() (string, int) { return "", 0 }
	w.table.add(seen{use: executes, path: at}, none)
	for _, by := range w.interpreters(at) {
		w.table.add(seen{use: executes, path: by}, none)
	}
}

// text is a string of a process's memory, as long as a path may be.
func text(tid int, at uint64) (string, error) {
	buf := make([]byte, unix.PathMax)
	got := 0
	for got < len(buf) {
		// Never over the end of a page: the next one may not be there.
		room := min(len(buf)-got, 4096-int((at+uint64(got))&4095))
		n, err := peek(tid, at+uint64(got), buf[got:got+room])
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(buf[got:got+n], 0); i >= 0 {
			return string(buf[:got+i]), nil
		}
		if n < room {
			break
		}
		got += n
	}
	return "", unix.ENAMETOOLONG
}

// peek reads a process's memory.
func peek(tid int, at uint64, into []byte) (int, error) {
	here := unix.Iovec{Base: &into[0]}
	here.SetLen(len(into))
	there := unix.RemoteIovec{Base: uintptr(at), Len: len(into)}
	return unix.ProcessVMReadv(tid, []unix.Iovec{here}, []unix.RemoteIovec{there}, 0)
}

// Of a program's words so many are kept, and of each so much.
const (
	mostWords = 16
	wordRoom  = 200
)

// words are those that a program is executed with, as far as they can be read.
func words(tid int, at uint64) []string {
	var out []string
	for i := range uint64(mostWords) {
		var p [8]byte
		n, err := peek(tid, at+8*i, p[:])
		address := binary.NativeEndian.Uint64(p[:])
		if err != nil || n < 8 || address == 0 {
			return out
		}
		word, err := text(tid, address)
		if err != nil {
			word = "…"
		}
		if len(word) > wordRoom {
			word = word[:wordRoom] + "…"
		}
		out = append(out, strings.ToValidUTF8(word, "�"))
	}
	return append(out, "…")
}

// interpreters are the programs by which the kernel runs a program: what a script names, and
// what loads it.
func (w *Watch) interpreters(at string) []string {
	var out []string
	for range 4 { // the kernel follows five
		by := w.interpreter(at)
		if by == "" || realpath.Inside(by, "/proc") {
			break
		}
		out, at = append(out, by), by
	}
	return out
}

func (w *Watch) interpreter(at string) string {
	if w.root < 0 {
		return ""
	}
	fd, err := w.openInside(at, unix.O_PATH, true)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ""
	}
	r, err := open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return ""
	}
	f := os.NewFile(uintptr(r), at)
	defer f.Close()
	name := interpreterOf(f)
	if !path.IsAbs(name) {
		return ""
	}
	real, err := w.resolve(name)
	if err != nil {
		return ""
	}
	return real
}
