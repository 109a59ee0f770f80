package beside_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/session/beside"
	"cloister/workspace/homes"
)

// TestForgotten removes the volumes of a project that is gone, and no other's.
func TestForgotten(t *testing.T) {
	data, projects := t.TempDir(), t.TempDir()
	kept := map[string]string{}
	for _, name := range []string{"there", "gone", "runs"} {
		folder := filepath.Join(data, "compose", name)
		volume := filepath.Join(homes.Of(data, folder), "volumes", "v")
		for _, dir := range []string{folder, volume} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for file, text := range map[string]string{
			folder + "/project": filepath.Join(projects, name) + "\n", folder + "/lock": "", volume + "/file": "text",
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		kept[name] = volume
	}
	if err := os.Mkdir(filepath.Join(projects, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Open(filepath.Join(data, "compose", "runs", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	list, err := beside.Forgotten(data)
	if err != nil || len(list) != 1 || list[0].Project != filepath.Join(projects, "gone") || list[0].Bytes() == 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := list[0].Remove(); err != nil {
		t.Fatal(err)
	}
	for name, volume := range kept {
		if _, err := os.Stat(filepath.Join(volume, "file")); (err == nil) == (name == "gone") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := beside.Forgotten(data); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
