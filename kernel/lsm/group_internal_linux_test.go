package lsm

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is no control group is refused without asking its file system, which may be a user's own that
// never answers: who waits for it keeps all others waiting.
func TestGroupOfAnother(t *testing.T) {
	dir := t.TempDir()
	at := make(chan int, 1)
	end := make(chan struct{})
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, and with it the namespace
		asked := silent(dir)
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			fd = -1
		}
		at <- fd
		<-end
		if asked != nil {
			asked.Close() // whoever waits for an answer gets an error
		}
	}()
	defer close(end)
	fd := <-at
	if fd < 0 {
		t.Fatal("the folder cannot be opened")
	}
	f := os.NewFile(uintptr(fd), "folder")
	refused := make(chan error, 1)
	go func() {
		_, _, err := groupOf(f)
		refused <- err
	}()
	select {
	case err := <-refused:
		if err == nil {
			t.Error("it is a control group")
		}
		f.Close()
	case <-time.After(time.Minute):
		t.Error("it waits for the file system")
	}
}

// silent mounts a file system that never answers, in a namespace of this thread's own; nil where that
// is not to be had: then the folder is a plain one.
func silent(dir string) *os.File {
	if unix.Unshare(unix.CLONE_NEWNS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil {
		return nil
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	says := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", f.Fd())
	if unix.Mount("silent", dir, "fuse", 0, says) != nil {
		f.Close()
		return nil
	}
	return f
}
