package gated

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// marks learns by fanotify: one mark on the whole file system on which an upper folder lies,
// which root alone may set. An overlay itself takes no mark that tells names (EOPNOTSUPP, Linux
// 6.18), and a mark on a mount sees nothing of what an overlay writes below.
type marks struct {
	dir   string // absolute
	mount int
	fan   *os.File
	out   chan []event
	// folders remembers where a folder by its handle lies: "" is outside.
	folders map[string]string
	Seen    int // events of the whole file system
}

const marked = unix.FAN_CREATE | unix.FAN_MODIFY | unix.FAN_CLOSE_WRITE | unix.FAN_ATTRIB | unix.FAN_MOVED_FROM |
	unix.FAN_MOVED_TO | unix.FAN_DELETE | unix.FAN_ONDIR

func mark(dir string) (*marks, error) {
	const how = unix.FAN_CLASS_NOTIF | unix.FAN_REPORT_DFID_NAME | unix.FAN_NONBLOCK | unix.FAN_CLOEXEC | unix.FAN_UNLIMITED_QUEUE
	fd, err := unix.FanotifyInit(how, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	m := &marks{dir: dir, fan: os.NewFile(uintptr(fd), "fanotify"), out: make(chan []event, backlog), folders: map[string]string{}}
	if err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, marked, unix.AT_FDCWD, dir); err == nil {
		m.mount, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		_ = m.fan.Close()
		return nil, err
	}
	go m.read()
	return m, nil
}

func (m *marks) events() <-chan []event { return m.out }
func (m *marks) close() error           { return m.fan.Close() }

func (m *marks) read() {
	defer close(m.out)
	defer func() { _ = unix.Close(m.mount) }()
	buf := make([]byte, 256<<10)
	for {
		n, err := m.fan.Read(buf)
		if err != nil {
			return
		}
		var batch []event
		// struct fanotify_event_metadata, and the records that follow it: fanotify(7).
		for at := buf[:n]; len(at) >= 24; {
			size, start, mask := binary.NativeEndian.Uint32(at), binary.NativeEndian.Uint16(at[6:]), binary.NativeEndian.Uint64(at[8:])
			batch = m.one(at[start:size], mask, batch)
			at = at[size:]
		}
		if len(batch) > 0 {
			m.out <- batch
		}
	}
}

// one reads a record of a folder and a name: a header of four bytes, the file system's id of
// eight, a file handle, and the name.
func (m *marks) one(rec []byte, mask uint64, batch []event) []event {
	m.Seen++
	if mask&unix.FAN_Q_OVERFLOW != 0 {
		return append(batch, event{rel: all})
	}
	if len(rec) < 20 || rec[0] != unix.FAN_EVENT_INFO_TYPE_DFID_NAME {
		return batch
	}
	n := int(binary.NativeEndian.Uint32(rec[12:]))
	handle := unix.NewFileHandle(int32(binary.NativeEndian.Uint32(rec[16:])), rec[20:20+n])
	in, ok := m.folder(handle)
	if !ok {
		return batch
	}
	name, _, _ := bytes.Cut(rec[20+n:], []byte{0})
	rel := filepath.Join(in, string(name))
	if mask&unix.FAN_ONDIR != 0 {
		if mask&(unix.FAN_MOVED_FROM|unix.FAN_MOVED_TO) != 0 {
			clear(m.folders)
		}
		if mask&unix.FAN_MOVED_TO != 0 {
			return append(batch, event{rel: all})
		}
	}
	switch {
	case mask&(unix.FAN_CLOSE_WRITE|unix.FAN_MOVED_FROM|unix.FAN_MOVED_TO|unix.FAN_DELETE|unix.FAN_ONDIR) != 0:
		return append(batch, event{rel: rel})
	case mask&unix.FAN_MODIFY != 0:
		return append(batch, event{rel: rel, rest: writing})
	}
	return append(batch, event{rel: rel, rest: soon})
}

func (m *marks) folder(h unix.FileHandle) (rel string, inside bool) {
	key := strconv.Itoa(int(h.Type())) + string(h.Bytes())
	rel, known := m.folders[key]
	if !known {
		if len(m.folders) > 1<<16 {
			clear(m.folders)
		}
		if fd, err := unix.OpenByHandleAt(m.mount, h, unix.O_PATH|unix.O_CLOEXEC); err == nil {
			name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
			_ = unix.Close(fd)
			if below, ok := strings.CutPrefix(name+"/", m.dir+"/"); err == nil && ok {
				rel = "./" + below
			}
		}
		m.folders[key] = rel
	}
	return rel, rel != ""
}
