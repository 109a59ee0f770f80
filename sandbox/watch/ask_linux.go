package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

const (
	// mostHeld bounds the calls that wait for a person at once; a further one fails.
	mostHeld = 64
	// mostHanded bounds the file that is handed in to be read, in bytes.
	mostHanded = 16 << 20
	// mostCopied bounds the copies that were made for one command, in bytes: whoever has one open keeps it, out
	// of reach of the box's own bounds.
	mostCopied = 256 << 20
	// looksEvery is how often it is looked whether whoever called still waits.
	looksEvery = time.Second
)

// asking holds calls that open what a person is asked about.
//
// What is asked about is opened before the question, and that is handed in after a yes: to be read a
// copy of its content, which no process can change (a sealed memfd), to be written the file itself. The call
// is never let go on, so nothing depends on what its arguments say by then.
type asking struct {
	listener *os.File
	files    map[string][]sandbox.Asked // by their paths inside
	ask      Ask
	ctx      context.Context
	cancel   context.CancelFunc
	places   chan struct{}
	wg       sync.WaitGroup
	noexec   bool // what is handed in must not be executed: there is a list of programs
	// again looks once more at a call that executes, when its program is filled, and lets it go on.
	again func(n *notice, at string) bool

	looks sync.Mutex // one file is read at a time: it costs this process, and not the box

	mu     sync.Mutex
	copies map[string]copied // by their paths inside: the last of each
	made   int64             // bytes of all copies so far
	sums   map[string]summed // of programs, by their paths inside
	turn   time.Time         // when the next may be asked about, by the pace
}

// copied is the content of a file, for all who may read it.
type copied struct {
	file   *os.File
	digest string
}

func newAsking(listener *os.File, about sandbox.Watched, ask Ask, again func(*notice, string) bool) *asking {
	if len(about.Asked) == 0 || ask == nil {
		return nil
	}
	a := &asking{listener: listener, files: map[string][]sandbox.Asked{}, ask: ask, places: make(chan struct{}, mostHeld),
		noexec: about.Permits.Programs, copies: map[string]copied{}, sums: map[string]summed{}, again: again}
	a.ctx, a.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with the listener
	for _, one := range about.Asked {
		a.files[string(one.Path)] = append(a.files[string(one.Path)], one)
	}
	return a
}

// end ends all questions; what still waits fails.
func (a *asking) end() {
	if a == nil {
		return
	}
	a.cancel()
	a.wg.Wait()
	for _, c := range a.copies {
		c.file.Close()
	}
}

// hold has an open wait for a person. Where too many do, it is refused at once.
func (a *asking) hold(n *notice, at string, flags uint64) fate {
	if a == nil || flags&(unix.O_DIRECTORY|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 ||
		flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL {
		return passes // it fails by itself
	}
	write := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	for _, one := range a.files[at] {
		if write && !one.Write || !write && !one.Read {
			continue
		}
		return a.later(n, func(n *notice) error { return a.one(n, one, write, flags) })
	}
	return passes
}

// later has a call wait while something is done, which answers it unless there is an error.
func (a *asking) later(n *notice, do func(*notice) error) fate {
	select {
	case a.places <- struct{}{}:
	default:
		return refused
	}
	call := *n
	a.wg.Go(func() {
		defer func() { <-a.places }()
		if err := do(&call); err != nil {
			refuse(int(a.listener.Fd()), call.id)
		}
	})
	return held
}

// inquiry is a call that waits, with what is asked about it. Its context ends with the call.
type inquiry struct {
	sandbox.FileQuestion
	ctx  context.Context
	file *os.File // what is asked about
	end  func()
}

// begin opens what is asked about, when its turn has come.
func (a *asking) begin(n *notice, about sandbox.Asked, write bool) (*inquiry, error) {
	ctx, cancel := context.WithCancel(a.ctx)
	gone := make(chan struct{})
	go a.lookAfter(n.id, cancel, gone)
	q := &inquiry{ctx: ctx, end: func() { close(gone); cancel() }, FileQuestion: sandbox.FileQuestion{
		Path: string(about.Path), Write: write, Rule: about.Rule, PID: int(n.tid)}}
	if string(about.Source) != q.Path {
		q.Source = string(about.Source)
	}
	if err := a.wait(ctx, 1); err != nil {
		q.end()
		return nil, err
	}
	f, err := openAsked(about, write)
	if err != nil {
		q.end()
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		q.end()
		return nil, err
	}
	q.file, q.Size, q.Time = f, fi.Size(), fi.ModTime()
	program, _ := os.ReadFile("/proc/" + strconv.Itoa(int(n.tid)) + "/comm") // it may be gone
	q.Program = strings.TrimSpace(string(program))
	return q, nil
}

// Close ends it.
func (q *inquiry) Close() {
	q.file.Close()
	q.end()
}

// one asks about one call, and hands the file in. With an error the call fails.
func (a *asking) one(n *notice, about sandbox.Asked, write bool, flags uint64) error {
	q, err := a.begin(n, about, write)
	if err != nil {
		return err
	}
	defer q.Close()
	ctx, f := q.ctx, q.file
	if !write {
		digest := func(f *os.File) (string, error) { return copyTo(io.Discard, f) }
		if q.Digest, err = a.look(ctx, f, mostHanded, digest); err != nil {
			return err
		}
	}
	if err := a.ask(ctx, q.FileQuestion); err != nil {
		return err
	}
	var give *os.File
	if write {
		give, err = again(f, flags)
	} else {
		give, err = a.content(about, f, q.Digest)
	}
	if err != nil {
		return err
	}
	defer give.Close()
	return handIn(int(a.listener.Fd()), n.id, int(give.Fd()), flags&unix.O_CLOEXEC != 0)
}

// lookAfter ends a question when whoever called is gone.
func (a *asking) lookAfter(id uint64, cancel func(), gone <-chan struct{}) {
	tick := time.NewTicker(looksEvery)
	defer tick.Stop()
	for {
		select {
		case <-gone:
			return
		case <-tick.C:
			if !waits(int(a.listener.Fd()), id) {
				cancel()
				return
			}
		}
	}
}

// openAsked opens the host's file, on no way through a link. What is to be written is only held.
func openAsked(a sandbox.Asked, write bool) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, string(a.Source), &how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", a.Source, err)
	}
	held := os.NewFile(uintptr(fd), string(a.Source))
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.Join(fmt.Errorf("open %s: it is no regular file", a.Source), err, held.Close())
	}
	if err := permitted(a, &st, write); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	if write {
		return held, nil
	}
	defer held.Close()
	return again(held, unix.O_RDONLY)
}

// permitted refuses root's own way to a file that whoever runs inside could not open: it has the rights of the owner
// with whose it is shown, or everybody's. Without root the kernel compares.
func permitted(a sandbox.Asked, st *unix.Stat_t, write bool) error {
	if os.Geteuid() != 0 {
		return nil
	}
	want := uint32(unix.S_IROTH)
	switch {
	case write:
		want |= unix.S_IWOTH
	case a.StandIn != "":
		want |= unix.S_IXOTH
	}
	var by unix.Stat_t
	if a.Owned != "" && unix.Stat(string(a.Owned), &by) == nil && by.Uid == st.Uid {
		want <<= 6
	}
	if st.Mode&want != want {
		return fmt.Errorf("open %s: %w", a.Source, unix.EACCES)
	}
	return nil
}

// again opens what a descriptor holds, with what a call's flags say of it.
func again(f *os.File, flags uint64) (*os.File, error) {
	const taken = unix.O_ACCMODE | unix.O_APPEND | unix.O_TRUNC | unix.O_SYNC | unix.O_DSYNC
	fd, err := open("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), int(flags&taken)|unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Name(), err)
	}
	if flags&unix.O_NONBLOCK == 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, int(flags&unix.O_APPEND)); err != nil {
			return nil, errors.Join(err, unix.Close(fd))
		}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// content is a copy of what a person has seen of a file, which no process can change or execute. Whoever had a
// descriptor of the file itself could open it again for writing, by /proc/self/fd.
func (a *asking) content(about sandbox.Asked, f *os.File, digest string) (*os.File, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.copies[string(about.Path)]; ok {
		if c.digest == digest {
			return again(c.file, unix.O_RDONLY)
		}
		delete(a.copies, string(about.Path))
		c.file.Close()
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	m, now, err := a.sealed(f)
	if err != nil {
		return nil, err
	}
	if now != digest {
		return nil, errors.Join(fmt.Errorf("open %s: it has changed since a person was asked", about.Source), m.Close())
	}
	size, err := m.Seek(0, io.SeekEnd)
	if a.made += max(size, 4096); err != nil || a.made > mostCopied {
		return nil, errors.Join(fmt.Errorf("open %s: more than %d bytes were copied", about.Source, mostCopied),
			err, m.Close())
	}
	a.copies[string(about.Path)] = copied{m, digest}
	return again(m, unix.O_RDONLY)
}

func (a *asking) sealed(f *os.File) (m *os.File, digest string, err error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING | unix.MFD_NOEXEC_SEAL
	fd, err := unix.MemfdCreate("asked", flags)
	if errors.Is(err, unix.EINVAL) && !a.noexec { // before Linux 6.3
		fd, err = unix.MemfdCreate("asked", flags&^unix.MFD_NOEXEC_SEAL)
	}
	if err != nil {
		return nil, "", fmt.Errorf("copy %s: %w", f.Name(), err)
	}
	m = os.NewFile(uintptr(fd), "asked")
	if digest, err = copyTo(m, f); err == nil {
		err = m.Chmod(0o444)
	}
	if err == nil {
		const all = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, all)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("copy %s: %w", f.Name(), err), m.Close())
	}
	return m, digest, nil
}

// copyTo copies a file that is small enough, and gives the digest of its content.
func copyTo(w io.Writer, f *os.File) (string, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(f, mostHanded+1))
	if err == nil && n > mostHanded {
		err = fmt.Errorf("it has more than %d bytes", mostHanded)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}
