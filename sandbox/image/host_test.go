package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox/image"
)

// debian makes a machine with a few packages installed.
func debian(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("usr/bin/base", "base", 0o755)
	if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "usr/bin/base"), 0o4755); err != nil {
		t.Fatal(err)
	}
	write("usr/bin/git", "git", 0o755)
	if err := os.Link(filepath.Join(root, "usr/bin/git"), filepath.Join(root, "usr/bin/git-add")); err != nil {
		t.Fatal(err)
	}
	write("usr/lib/libneeded.so", "needed", 0o644)
	write("usr/lib/libother.so", "other", 0o644)
	write("usr/bin/extra", "extra", 0o755)
	write("usr/bin/unasked", "unasked", 0o755)
	write("usr/share/doc/git/README", "read me", 0o644)
	write("etc/ssh/ssh_host_key", "secret", 0o600)
	write("etc/alternatives/editor", "alternative", 0o644)
	for link, to := range map[string]string{
		"etc/alternatives/other": "/usr/bin/git", "usr/bin/other": "/etc/alternatives/other",
		"etc/alternatives/lost": "/usr/bin/unasked", "usr/bin/lost": "/etc/alternatives/lost",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	write("var/lib/dpkg/status", `Package: base
Essential: yes
Status: install ok installed

Package: git
Status: install ok installed
Depends: libabsent (>= 1) | libneeded:any (>= 2.0), perl
Description: a
 Depends: nothing, this is text

Package: libneeded
Status: install ok installed
Multi-Arch: same

Package: libother
Status: install ok installed
Provides: virtual (= 1)

Package: extra
Status: install ok installed
Pre-Depends: virtual

Package: unasked
Status: install ok installed

Package: removed
Essential: yes
Status: deinstall ok config-files
`, 0o644)
	for name, list := range map[string]string{
		"base": "/.\n/bin\n/bin/base\n", "git": "/usr\n/usr/bin\n/usr/bin/git\n/usr/bin/git-add\n/usr/share/doc/git/README\n/usr/gone\n", "libneeded:amd64": "/usr/lib/libneeded.so\n",
		"libother": "/usr/lib/libother.so\n", "extra": "/usr/bin/extra\n", "extra-more": "/usr/bin/unasked\n", "unasked": "/usr/bin/unasked\n", "removed": "/usr/bin/unasked\n",
	} {
		write("var/lib/dpkg/info/"+name+".list", list, 0o644)
	}
	return root
}

func TestFromHost(t *testing.T) {
	root := debian(t)
	s := image.Open(filepath.Join(t.TempDir(), "images"))
	i, err := s.FromHost(t.Context(), image.Host{Root: root, Packages: []string{"extra"}}, "work")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bin/base": "base", "usr/bin/git-add": "git", "usr/lib/libneeded.so": "needed", "usr/lib/libother.so": "other", "usr/bin/extra": "extra", "etc/alternatives/editor": "alternative"} {
		if got := text(t, s.Root(i), name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"usr/bin/unasked", "usr/share/doc", "etc/ssh", "var/lib/dpkg", "usr/gone"} {
		gone(t, s.Root(i), name)
	}
	if to, err := os.Readlink(filepath.Join(s.Root(i), "usr/bin/other")); err != nil || to != "/etc/alternatives/other" {
		t.Errorf("another name of a program: %q, %v", to, err)
	}
	gone(t, s.Root(i), "usr/bin/lost")
	if fi, err := os.Stat(filepath.Join(s.Root(i), "usr/bin/base")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("a set-id program: %v, %v", fi.Mode(), err)
	}
	if found, err := s.Find("work:latest"); err != nil || found.ID != i.ID {
		t.Errorf("by its name: %+v, %v", found, err)
	}
	again, err := s.FromHost(t.Context(), image.Host{Root: root, Packages: []string{"extra"}}, "other")
	if err != nil || again.ID != i.ID || !slices.Contains(again.Names, i.Names[0]) {
		t.Errorf("the same packages made %+v, %v", again, err)
	}
	less, err := s.FromHost(t.Context(), image.Host{Root: root}, "work")
	if err != nil || less.ID == i.ID {
		t.Errorf("other packages made %+v, %v", less, err)
	}
	gone(t, s.Root(less), "usr/bin/extra")
	if found, err := s.Find("work"); err != nil || found.ID != less.ID {
		t.Errorf("the name did not move: %+v, %v", found, err)
	}
}

// TestFromHostPrograms: agents are no packages of dpkg's, and are taken with their
// own.
func TestFromHostPrograms(t *testing.T) {
	root, home := debian(t), t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		at := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return at
	}
	link := func(to, name string) string {
		at := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(to, at)); err != nil {
			t.Fatal(err)
		}
		return at
	}
	const modules = ".npm-global/lib/node_modules/"
	write(modules+"@maker/agent/bin/agent.exe", "agent", 0o755)
	write(modules+"@maker/agent/node_modules/dep/index.js", "dep", 0o644)
	write(modules+"@maker/other/secret", "no", 0o644)
	write(modules+"plain/cli.js", "#!/bin/sh\n", 0o755)
	write(".local/share/single/versions/3", "\x7fELFsingle", 0o755)
	s := image.Open(filepath.Join(t.TempDir(), "images"))
	i, err := s.FromHost(t.Context(), image.Host{Root: root, Programs: []string{
		link("../lib/node_modules/@maker/agent/bin/agent.exe", ".npm-global/bin/agent"),
		link("../lib/node_modules/plain/cli.js", ".npm-global/bin/plain"),
		link("../share/single/versions/3", ".local/bin/single"),
	}}, "work")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"usr/local/bin/single": "\x7fELFsingle", "usr/local/lib/node_modules/@maker/agent/node_modules/dep/index.js": "dep",
		"usr/local/lib/node_modules/@maker/agent/bin/agent.exe": "agent", "usr/local/lib/node_modules/plain/cli.js": "#!/bin/sh\n",
	} {
		if got := text(t, s.Root(i), name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if to, err := os.Readlink(filepath.Join(s.Root(i), "usr/local/bin/agent")); err != nil || to != "/usr/local/lib/node_modules/@maker/agent/bin/agent.exe" {
		t.Errorf("agent leads to %q, %v", to, err)
	}
	// A home is closed; what an image has of it is for its user.
	for _, name := range []string{"usr/local/lib/node_modules", "usr/local/lib/node_modules/@maker/agent/bin"} {
		if fi, err := os.Stat(filepath.Join(s.Root(i), name)); err != nil || fi.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	gone(t, s.Root(i), "usr/local/lib/node_modules/@maker/other")
	for file, want := range map[string]string{
		write("bin/script", "#!/bin/sh\n. ../lib/more\n", 0o755):   "what it needs besides is not known",
		write(modules+"js/cli.js", "#!/usr/bin/env node\n", 0o755): "needs node",
		write("bin/closed", "x", 0o644):                            "is no program",
		filepath.Join(home, "bin/absent"):                          "no such file",
	} {
		if _, err := s.FromHost(t.Context(), image.Host{Root: root, Programs: []string{file}}, "bad"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestFromHostRefuses(t *testing.T) {
	root := debian(t)
	s := image.Open(filepath.Join(t.TempDir(), "images"))
	if _, err := s.FromHost(t.Context(), image.Host{Root: root, Packages: []string{"nothing"}}, "x"); err == nil || !strings.Contains(err.Error(), "nothing is not installed") {
		t.Errorf("got %v", err)
	}
	if _, err := s.FromHost(t.Context(), image.Host{Root: t.TempDir()}, "x"); err == nil || !strings.Contains(err.Error(), "no package database") {
		t.Errorf("got %v", err)
	}
	var bad *image.Malformed
	if _, err := s.FromHost(t.Context(), image.Host{Root: root}, "Not A Name"); !errors.As(err, &bad) {
		t.Errorf("got %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}
