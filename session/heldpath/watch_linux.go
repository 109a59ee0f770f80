package heldpath

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Watch sees git inside try to write its configuration: it makes a file config.lock beside
// it and removes it, where it could not be renamed. The function that it gives ends that,
// once all that came before was taken.
// A kernel that has no watch left is no error: these are words only.
func (w *Words) Watch() (stop func()) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return func() {}
	}
	configs := map[int32]sandbox.GuestPath{}
	for _, p := range w.protect {
		dir := filepath.Dir(string(p.Target))
		if filepath.Base(string(p.Target)) != "config" || filepath.Base(dir) != ".git" || !p.File || p.Pin {
			continue
		}
		const all = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
		if wd, err := unix.InotifyAddWatch(fd, dir, all); err == nil {
			configs[int32(wd)] = p.Target
		}
		if len(configs) == most {
			break
		}
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if len(configs) == 0 {
		_ = events.Close()
		return func() {}
	}
	seen := &watch{words: w, configs: configs, made: map[int32]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, watchBuffer)
		for {
			n, err := events.Read(buf)
			if err != nil {
				return
			}
			seen.take(buf[:n])
		}
	}()
	return sync.OnceFunc(func() {
		_ = events.SetReadDeadline(time.Unix(1, 0)) // ends the read
		<-done
		buf := make([]byte, watchBuffer)
		for { // what came before the end is there already
			n, err := unix.Read(fd, buf)
			if err != nil || n <= 0 {
				break
			}
			seen.take(buf[:n])
		}
		_ = events.Close()
	})
}

const watchBuffer = 64 << 10

// A watch is what was seen of git's attempts.
type watch struct {
	words   *Words
	configs map[int32]sandbox.GuestPath
	made    map[int32]bool // config.lock is there
}

// take takes the kernel's events.
func (s *watch) take(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask, length := binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		name := b[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+length]
		b = b[unix.SizeofInotifyEvent+length:]
		if string(bytes.TrimRight(name, "\x00")) != "config.lock" {
			continue
		}
		if mask&unix.IN_DELETE != 0 && s.made[wd] {
			s.words.Tried(s.configs[wd])
		}
		s.made[wd] = mask&unix.IN_CREATE != 0
	}
}
