package heldpath

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Watch sees git inside try to write its configuration: it makes a file config.lock beside
// it and removes it, where it could not be renamed. The function that it gives ends that.
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.read(events, configs)
	}()
	return func() {
		_ = events.Close() // ends the read
		<-done
	}
}

func (w *Words) read(events *os.File, configs map[int32]sandbox.GuestPath) {
	made := map[int32]bool{}
	buf := make([]byte, 64<<10)
	for {
		n, err := events.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask, length := binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
			name := b[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+length]
			b = b[unix.SizeofInotifyEvent+length:]
			if string(bytes.TrimRight(name, "\x00")) != "config.lock" {
				continue
			}
			if mask&unix.IN_DELETE != 0 && made[wd] {
				w.Tried(configs[wd])
			}
			made[wd] = mask&unix.IN_CREATE != 0
		}
	}
}
