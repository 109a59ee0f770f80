package srt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/config/imports"
	"cloister/session/srt"
)

// What settings deny is held, or ends the start: never passed over.
func TestSRTFiles(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "srt") // a cloister has a /tmp of its own
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"home/project/src/deep", "home/data/private", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "home")
	if err := os.Symlink(filepath.Join(home, "project"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                                       string
		allowWrite, allowRead, denyRead, denyWrite []string
		hide, protect, expose                      string
		readOnly                                   bool
		refused                                    string
	}{
		{name: "nothing", readOnly: true},
		{name: "relative to the working folder", allowWrite: []string{".."}, denyRead: []string{".env", "../key"}, denyWrite: []string{"deep"},
			hide: "src/.env key", protect: "src/deep"},
		{name: "the folder alone is not the project", allowWrite: []string{"."}, expose: home + "/project/src:rw", readOnly: true},
		{name: "patterns", allowWrite: []string{".."}, denyRead: []string{"../**/*.pem"}, hide: "**/*.pem"},
		{name: "absolute, of the home, through a link", allowWrite: []string{".."}, denyRead: []string{home + "/project/a", "~/project/b", dir + "/link/c"}, hide: "a b c"},
		{name: "what is not shown", denyRead: []string{"~/.ssh", "~/*.pem", "/nowhere/**"}, readOnly: true},
		{name: "a pattern on every level", denyRead: []string{"~/**/*.pem"}, refused: "cannot be held"},
		{name: "within what is read", allowRead: []string{"~/data"}, denyRead: []string{"~/data/private"}, refused: "denyRead ~/data/private cannot be held"},
		{name: "by a pattern", allowRead: []string{"~/data"}, denyRead: []string{"~/*/private"}, refused: "cannot be held"},
		{name: "within what is written", allowWrite: []string{"~/data"}, denyWrite: []string{"~/data/private"}, refused: "denyWrite ~/data/private cannot be held"},
		{name: "around what is written", allowWrite: []string{"~/data/private"}, denyWrite: []string{"~/data"}, expose: home + "/data/private", readOnly: true},
		{name: "around the project", allowWrite: []string{".."}, denyWrite: []string{"~"}, readOnly: true},
		{name: "the home, and the project", allowWrite: []string{".."}, denyRead: []string{"~"}, allowRead: []string{".."}},
		{name: "the home", allowWrite: []string{".."}, denyRead: []string{"~"}, refused: "allowRead does not name it"},
		{name: "the project", allowWrite: []string{".."}, denyRead: []string{".."}, allowRead: []string{".."}, refused: "denies the project"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s imports.SRT
			s.Filesystem.AllowWrite, s.Filesystem.AllowRead = c.allowWrite, c.allowRead
			s.Filesystem.DenyRead, s.Filesystem.DenyWrite = c.denyRead, c.denyWrite
			f, err := srt.View(s, filepath.Join(home, "project"), filepath.Join(home, "project/src"), home)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v, want %q", err, c.refused)
				}
				return
			}
			got := []string{strings.Join(f.Hide, " "), strings.Join(f.Protect, " "), strings.Join(f.Expose, " ")}
			if err != nil || f.ReadOnly != c.readOnly || got[0] != c.hide || got[1] != c.protect || got[2] != c.expose {
				t.Errorf("%v, read only %v, %q", err, f.ReadOnly, got)
			}
		})
	}
}

// A pattern that no rule can say is forbidden as text, by its port where it names one.
func TestPolicy(t *testing.T) {
	var s imports.SRT
	s.Network.AllowedDomains = []string{"Example.com", "*.example.org:8443"}
	s.Network.DeniedDomains = []string{"bad.example", "*", "*:22"}
	allow, deny, cedar := srt.Policy(s)
	if strings.Join(allow, " ") != "Example.com *.example.org:8443" || strings.Join(deny, " ") != "bad.example" {
		t.Errorf("%q, %q", allow, deny)
	}
	if strings.Count(cedar, "forbid") != 3 || strings.Count(cedar, "context.port == 22 }") != 1 ||
		!strings.Contains(cedar, `resource == Host::"example.com" || (resource in Host::"*.example.org" && context.port == 8443)`) {
		t.Error(cedar)
	}
}
