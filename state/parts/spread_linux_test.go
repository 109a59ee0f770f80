package parts_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/state/parts"
)

// TestLayersBeginApart looks for the flag by which ext4 spreads layers; other file systems
// have to do without.
func TestLayersBeginApart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layers")
	f := parts.Folder{Dir: dir, UID: -1, GID: -1}
	for _, id := range []string{"one", "two"} {
		if err := f.Make(id); err != nil {
			t.Fatal(err)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if int64(fs.Type) != unix.EXT4_SUPER_MAGIC {
		t.Logf("%s is on a file system of type %x", dir, fs.Type)
		return
	}
	const topOfHierarchy = 0x0002_0000
	for path, want := range map[string]bool{dir: true, f.At("one", parts.Project): false} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
		if err != nil || (flags&topOfHierarchy != 0) != want {
			t.Errorf("%s has the flags %x, %v", path, flags, err)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}
