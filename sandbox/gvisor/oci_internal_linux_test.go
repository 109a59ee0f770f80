package gvisor

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

var plain = sandbox.Spec{
	ID: "id", Name: "Test Box", Argv: []string{"sh", "-c", "echo ünï"}, Dir: "/home/me/project",
	Env: []string{"PATH=/bin", "HOME=/home/me"}, User: sandbox.User{ID: 1000, Name: "agent", Home: "/home/me"},
	Binds: []sandbox.Bind{{Source: "/srv/p", Target: "/home/me/project", Access: sandbox.ReadWrite}},
}

// TestSpecification: what the kernel is given, compared with what was looked at. With
// CLOISTER_WRITE_GOLDEN=1 it is written anew.
func TestSpecification(t *testing.T) {
	m := machine{memory: 8 << 30, files: unix.Rlimit{Cur: 1024, Max: 4096}, filter: []byte("filter!!")}
	below := plain
	below.Binds = []sandbox.Bind{{Source: "/tmp/p", Target: "/tmp/p"}}
	below.Limits.Pids = 50
	for name, one := range map[string]any{
		"box":            specification(plain, m, wiring{}),
		"below-tmp":      specification(below, m, wiring{}),
		"terminal":       specification(plain, m, wiring{terminal: true, aside: [3]*os.File{nil, os.Stdout, nil}}),
		"one-more":       process(plain, m, modeJoin, wiring{}),
		"words-of-box":   first(command(modeFirst, []int{20, 21, 22}, 1)),
		"words-of-more":  first(command(modeJoin, []int{20, 21, 22}, 0)),
		"words-of-aside": first(command(modeJoin, []int{20, 21, 22, 23}, 1)),
	} {
		got, err := json.MarshalIndent(one, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join("testdata", name+".json")
		if os.Getenv("CLOISTER_WRITE_GOLDEN") != "" {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func first(argv, _ []string) []string { return argv }

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*sandbox.Spec)
		want   string
	}{
		"nothing":     {func(*sandbox.Spec) {}, ""},
		"an argument": {func(s *sandbox.Spec) { s.Argv = append(s.Argv, "caf\xe9") }, `"caf\xe9" has bytes that are no UTF-8`},
		"a variable":  {func(s *sandbox.Spec) { s.Env = append(s.Env, "SECRET=\xff") }, `"SECRET" has bytes`},
		"the folder":  {func(s *sandbox.Spec) { s.Dir = "/p\xe4" }, `has bytes`},
		"a device":    {func(s *sandbox.Spec) { s.Devices = []string{"kvm"} }, "kvm was asked for"},
	} {
		s := plain
		tt.change(&s)
		err := refuse(s)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "\xff") {
			t.Errorf("%s: the error has a value", name)
		}
	}
}

// heard has a box listen to what is reported.
func heard(t *testing.T, mode string, outside, inside string) (*box, error) {
	t.Helper()
	r, err := newReports(mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.outside.WriteString(outside); err != nil {
		t.Fatal(err)
	}
	if _, err := r.inside.WriteString(inside); err != nil {
		t.Fatal(err)
	}
	r.given()
	b := &box{program: "/opt/cloister-gvisor", began: make(chan error, 2)}
	err = b.listen(r, plain)
	r.close()
	return b, err
}

func TestReports(t *testing.T) {
	hello := "hello " + Protocol + " gvisor " + Pin + "\n"
	for name, tt := range map[string]struct {
		mode, outside, inside string
		began                 bool
		end                   sandbox.Status
		want                  string
	}{
		"a run":          {modeFirst, hello, "started\nend 1792\n", true, sandbox.Status{Code: 7}, ""},
		"a signal":       {modeFirst, hello, "started\nend 15\n", true, sandbox.Status{Signal: 15}, ""},
		"no command":     {modeFirst, hello, "exec 2\n", false, sandbox.Status{}, "not found in the cloister"},
		"no program":     {modeFirst, hello, "exec 13\n", false, sandbox.Status{}, "execute sh: permission denied"},
		"no box":         {modeFirst, hello + "error cannot create sandbox\n", "", false, sandbox.Status{}, "start gvisor: cannot create sandbox"},
		"died early":     {modeFirst, hello, "", false, sandbox.Status{}, "the kernel ended before the command began"},
		"died":           {modeFirst, hello, "started\nerror the sandbox ended\n", true, sandbox.Status{}, ""},
		"silent":         {modeFirst, "", "", false, sandbox.Status{}, "/opt/cloister-gvisor is not the program that belongs"},
		"another":        {modeFirst, "hello 1 gvisor v0\n", "started\n", false, sandbox.Status{}, "is of another version"},
		"garbled":        {modeFirst, hello, "exec x\n", false, sandbox.Status{}, "was reported"},
		"one more":       {modeJoin, hello + "made\nend 0\n", "", true, sandbox.Status{}, ""},
		"one more fails": {modeJoin, hello + "made\n", "exec 2\n", false, sandbox.Status{}, "not found in the cloister"},
		"no box to join": {modeJoin, hello + "error no such container\n", "", false, sandbox.Status{}, "no such container"},
	} {
		b, err := heard(t, tt.mode, tt.outside, tt.inside)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if began := len(b.began) > 0; began != tt.began || b.end != tt.end {
			t.Errorf("%s: began %v, want %v; ended with %+v, want %+v", name, began, tt.began, b.end, tt.end)
		}
	}
}
