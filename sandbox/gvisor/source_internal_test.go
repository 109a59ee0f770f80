package gvisor

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSource: what is built elsewhere is what lies in the folder kernel. With
// CLOISTER_WRITE_GOLDEN=1 the text is written anew.
func TestSource(t *testing.T) {
	var text strings.Builder
	text.WriteString("The module in the folder kernel, written by TestSource.\n")
	err := filepath.WalkDir("kernel", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text.WriteString("-- " + filepath.ToSlash(strings.TrimPrefix(name, "kernel/")) + " --\n")
		text.Write(b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("CLOISTER_WRITE_GOLDEN") != "" {
		if err := os.WriteFile("kernel.txtar", []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text.String() != source {
		t.Error("kernel.txtar is not what is in kernel: CLOISTER_WRITE_GOLDEN=1 go test ./sandbox/gvisor -run TestSource")
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go", "first/main.go"} {
		if unpacked(source)[name] == "" {
			t.Errorf("%s is not there", name)
		}
	}
	if !strings.Contains(unpacked(source)["go.mod"], "gvisor.dev/gvisor "+Pin) {
		t.Errorf("the module is not pinned to %s", Pin)
	}
	for _, name := range []string{"main.go", "first/main.go"} {
		if !strings.Contains(strings.ToLower(unpacked(source)[name]), `protocol = "`+Protocol+`"`) {
			t.Errorf("%s speaks another protocol than %s", name, Protocol)
		}
	}
}
