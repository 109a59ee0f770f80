package hostexec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/resolve"
	"cloister/hostexec"
)

// place is a project with a host around it.
type place struct {
	t    *testing.T
	host hostexec.Host
	bin  string // of the host
}

func newPlace(t *testing.T) *place {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, bin: filepath.Join(root, "bin")}
	project, home := filepath.Join(root, "project"), filepath.Join(root, "home")
	for _, dir := range []string{p.bin, filepath.Join(project, "sub"), home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.write(filepath.Join(p.bin, "tool"), "#!/bin/sh\n", 0o755)
	p.write(filepath.Join(project, "tool"), "#!/bin/sh\n", 0o755)
	p.write(filepath.Join(project, "script.sh"), "echo", 0o644)
	p.host = hostexec.Host{Project: project, Inside: "/work", Foreign: []string{home}, Path: project + ":relative:" + p.bin, Env: []string{"A=b"}, Resolver: resolve.In(t.TempDir(), os.Getuid())}
	return p
}

func (p *place) write(path, text string, mode os.FileMode) {
	p.t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) link(to, path string) {
	p.t.Helper()
	if err := os.Symlink(to, path); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) prepare(dir string, argv ...string) (*hostexec.Prepared, error) {
	req := hostexec.Request{Dir: []byte(dir)}
	for _, a := range argv {
		req.Argv = append(req.Argv, []byte(a))
	}
	got, err := hostexec.Prepare(req, p.host)
	if err == nil {
		p.t.Cleanup(got.Close)
	}
	return got, err
}

func TestPrepare(t *testing.T) {
	p := newPlace(t)
	got, err := p.prepare("/work/sub", "tool", "../script.sh", "--file="+p.host.Project+"/script.sh", "script.sh")
	if err != nil {
		t.Fatal(err)
	}
	if got.Program != filepath.Join(p.bin, "tool") || got.Dir != filepath.Join(p.host.Project, "sub") || len(got.Operands) != 2 {
		t.Errorf("%+v", got.Command)
	}
	if got.Env[0] != "A=b" || len(got.Env) != 1 {
		t.Errorf("environment %q", got.Env)
	}
}

// An operand is bound by whatever name it was given.
// The files that make and npm look for are what they do: they are bound, in the
// folder and above it.
func TestFilesThatAProgramLooksFor(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"make", "npm", "other"} {
		p.write(filepath.Join(p.bin, name), "#!/bin/sh\n", 0o755)
	}
	p.write(filepath.Join(p.host.Project, "Makefile"), "all:\n", 0o644)
	p.write(filepath.Join(p.host.Project, "package.json"), "{}", 0o644)
	for name, want := range map[string]string{"make": "Makefile", "npm": "package.json", "other": ""} {
		got, err := p.prepare("/work/sub", name, "x")
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if len(got.Operands) != 0 {
				t.Errorf("%s: %+v", name, got.Operands)
			}
			continue
		}
		if len(got.Operands) != 1 || got.Operands[0].Arg != 0 || got.Operands[0].Path != filepath.Join(p.host.Project, want) {
			t.Fatalf("%s: %+v", name, got.Operands)
		}
		if shown := fmt.Sprint(got.Shown()); !strings.Contains(shown, "file that it looks for") {
			t.Errorf("%s: nobody is shown it: %s", name, shown)
		}
		p.write(filepath.Join(p.host.Project, want), "other", 0o644)
		if _, err := got.Again(); err == nil || !strings.Contains(err.Error(), "it changed after it was approved: the file ") {
			t.Errorf("%s: %v", name, err)
		}
		after, err := p.prepare("/work/sub", name, "x")
		if err != nil || after.Grant() == got.Grant() {
			t.Errorf("%s: a remembered answer holds for other bytes (%v)", name, err)
		}
		// One that leads out is none of the cloister's.
		outside := filepath.Join(filepath.Dir(p.bin), "outside-"+name)
		p.write(outside, "mine", 0o644)
		if err := os.Remove(filepath.Join(p.host.Project, want)); err != nil {
			t.Fatal(err)
		}
		p.link(outside, filepath.Join(p.host.Project, want))
		if out, err := p.prepare("/work", name, "x"); err != nil || len(out.Operands) != 0 {
			t.Errorf("%s: a link that leads out: %v", name, err)
		}
		if _, err := after.Again(); err == nil {
			t.Errorf("%s: a link in its place changed nothing", name)
		}
		if err := os.Remove(filepath.Join(p.host.Project, want)); err != nil {
			t.Fatal(err)
		}
		p.write(filepath.Join(p.host.Project, want), "other", 0o644)
		// One that comes into the folder itself goes before.
		p.write(filepath.Join(p.host.Project, "sub", want), "nearer", 0o644)
		if _, err := after.Again(); err == nil {
			t.Errorf("%s: a nearer file changed nothing", name)
		}
	}
}

func TestOperandByALink(t *testing.T) {
	p := newPlace(t)
	p.link(p.host.Project, p.host.Project+"-link")
	got, err := p.prepare("/work", "tool", p.host.Project+"-link/script.sh", "/proc/meminfo")
	if err != nil || len(got.Operands) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// HX-07, HX-08, and the bad input of the issue.
// A folder is the cloister's by whatever name it was given.
func TestForeignByALink(t *testing.T) {
	p := newPlace(t)
	home := p.host.Foreign[0]
	p.write(filepath.Join(home, "evil"), "#!/bin/sh\n", 0o755)
	p.link(home, home+"-link")
	p.host.Foreign = []string{home + "-link"}
	if _, err := p.prepare("/work", filepath.Join(home, "evil")); err == nil || !strings.Contains(err.Error(), "which the cloister can write") {
		t.Errorf("got %v", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	p := newPlace(t)
	project := p.host.Project
	p.link(filepath.Join(project, "tool"), filepath.Join(p.bin, "swapped"))
	p.link("/etc", filepath.Join(project, "out"))
	p.link("/etc/hostname", filepath.Join(project, "leak"))
	p.write(filepath.Join(p.bin, "loose"), "#!/bin/sh\n", 0o755)
	if err := os.Chmod(filepath.Join(p.bin, "loose"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		argv      []string
		want      string
	}{
		{"nothing", project, nil, "no command"},
		{"an empty name", project, []string{""}, "no command"},
		{"NUL", project, []string{"tool", "a\x00b"}, "argument 1 holds a NUL byte"},
		{"too much", project, []string{"tool", strings.Repeat("x", 2<<20)}, "more than 131072 bytes"},
		{"too many", project, append([]string{"tool"}, make([]string, 5000)...), "more than 4096 arguments"},
		{"no text", project, []string{"to\xffol"}, "is not text"},
		{"not there", project, []string{"absent"}, "no such program"},
		{"a relative path", project, []string{"./tool"}, "whole path outside the project"},
		{"a path in the project", project, []string{project + "/tool"}, "which the cloister can write"},
		{"a link into the project", project, []string{"swapped"}, "which the cloister can write"},
		{"everybody's", project, []string{"loose"}, "everybody on this machine may write"},
		{"a folder", project, []string{p.bin}, "is no program"},
		{"another folder", "/tmp", []string{"tool"}, "is not in the project"},
		{"above", project + "/..", []string{"tool"}, "is not in the project"},
		{"a link out", project + "/out", []string{"tool"}, "out"},
		{"relative", "sub", []string{"tool"}, "is not in the project"},
		{"gone", project + "/gone", []string{"tool"}, "gone"},
		{"a path of each process", project, []string{"/proc/self/cwd/tool"}, "another file for each process"},
		{"a process's root", project, []string{"/proc/1/root/bin/ls"}, "another file for each process"},
		{"an operand of each process", project, []string{"tool", "/proc/self/cwd/script.sh"}, "another file for each process"},
		{"in a flag", project, []string{"tool", "--file=/proc/thread-self/cwd/script.sh"}, "another file for each process"},
		{"an operand by descriptor", project, []string{"tool", "/dev/fd/0"}, "another file for each process"},
		{"an operand that leads out", project, []string{"tool", "leak"}, "leads out of"},
	} {
		_, err := p.prepare(c.dir, c.argv...)
		if _, is := errors.AsType[*hostexec.Refused](err); !is || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	p.host.Self = []string{filepath.Join(p.bin, "tool")}
	if _, err := p.prepare(project, "tool"); err == nil {
		t.Error("cloister itself passed")
	}
}

// HX-09, HX-23: what changed after it was looked at does not run.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *place)
		want   string
	}{
		{"nothing", func(*place) {}, ""},
		{"another file", func(p *place) { p.write(filepath.Join(p.host.Project, "other"), "x", 0o644) }, ""},
		{"the script", func(p *place) { p.write(filepath.Join(p.host.Project, "script.sh"), "evil", 0o644) }, "script.sh"},
		{"the script is gone", func(p *place) { _ = os.Remove(filepath.Join(p.host.Project, "script.sh")) }, "script.sh"},
		{"the script is a link", func(p *place) {
			_ = os.Remove(filepath.Join(p.host.Project, "script.sh"))
			p.link("/etc/hostname", filepath.Join(p.host.Project, "script.sh"))
		}, "leads out of"},
		{"the program", func(p *place) { p.write(filepath.Join(p.bin, "tool"), "#!/bin/sh\nevil\n", 0o755) }, "the program"},
		{"the program is gone", func(p *place) { _ = os.Remove(filepath.Join(p.bin, "tool")) }, "no such program"},
		{"the folder was moved", func(p *place) {
			_ = os.Rename(filepath.Join(p.host.Project, "sub"), filepath.Join(p.host.Project, "moved"))
			_ = os.Mkdir(filepath.Join(p.host.Project, "sub"), 0o755)
		}, "the folder"},
		{"the folder is a link", func(p *place) {
			_ = os.Rename(filepath.Join(p.host.Project, "sub"), filepath.Join(p.host.Project, "moved"))
			p.link("moved", filepath.Join(p.host.Project, "sub"))
		}, "the folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			got, err := p.prepare("/work/sub", "tool", "../script.sh")
			if err != nil {
				t.Fatal(err)
			}
			c.change(p)
			now, err := got.Again()
			if err == nil {
				now.Close()
			}
			if c.want == "" {
				if err != nil {
					t.Errorf("unchanged: %v", err)
				}
				return
			}
			r, is := errors.AsType[*hostexec.Refused](err)
			if !is || !r.Changed || !strings.Contains(r.Reason, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
