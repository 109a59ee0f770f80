package watch

import (
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// What is read of a process counts only while its call waits: its number may be another
// process's afterwards.
func TestGone(t *testing.T) {
	none, err := os.Open(os.DevNull) // no listener: no call waits at it
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	name := []byte("/etc/passwd\x00")
	w := &Watch{listener: none, root: -1, uses: map[int32][]call{}}
	w.table = newTable(sandbox.Watched{All: true}, func(e sandbox.FileEvent) { t.Errorf("%+v", e) })
	for _, c := range calls() {
		w.uses[int32(c.nr)] = append(w.uses[int32(c.nr)], c)
	}
	here := unix.AT_FDCWD
	w.look(&notice{
		id: 1, tid: uint32(unix.Gettid()), nr: unix.SYS_OPENAT,
		args: [6]uint64{uint64(here), uint64(reflect.ValueOf(name).Pointer())},
	})
	if w.root >= 0 || w.table.unread > 0 {
		t.Errorf("root %d, %d unread", w.root, w.table.unread)
	}
}
