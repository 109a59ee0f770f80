package judged

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox/judge"
)

// The root of a container is found by whatever name the host mounts it, and never on another file system.
func TestMounted(t *testing.T) {
	at := filepath.Join(t.TempDir(), "two words")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	var folder unix.Stat_t
	if err := unix.Stat(at, &folder); err != nil {
		t.Fatal(err)
	}
	device := fmt.Sprintf("%d:%d", unix.Major(folder.Dev), unix.Minor(folder.Dev))
	escaped := filepath.Dir(at) + `/two\040words`
	for what, c := range map[string]struct{ device, at, want string }{
		"escaped":             {device, escaped, at},
		"another device":      {"0:0", escaped, judge.Nowhere},
		"another folder":      {device, filepath.Dir(at), judge.Nowhere},
		"what is not written": {device, filepath.Dir(at) + "/two", judge.Nowhere},
	} {
		name := filepath.Join(t.TempDir(), "mountinfo")
		text := fmt.Sprintf("22 1 0:0 / / rw - tmpfs none rw\n31 22 %s / %s rw - overlay overlay rw\n", c.device, c.at)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := mounted(f, folder); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
		f.Close()
	}
}
