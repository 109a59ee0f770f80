package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

var update = flag.Bool("update", false, "write what is generated")

// host is what a hand finds on a Debian machine.
func host() plan.Facts {
	return plan.Facts{
		System: []plan.Found{{Path: "/usr", Dir: true}, {Path: "/bin", To: "usr/bin"}, {Path: "/lib", To: "usr/lib"},
			{Path: "/opt", Dir: true}},
		Etc: []plan.Found{{Path: "/etc/alternatives", Dir: true}, {Path: "/etc/os-release", To: "../usr/lib/os-release"},
			{Path: "/etc/services", Copied: true}, {Path: "/etc/ld.so.cache"}},
		CPUs: true, Chromium: true,
		Hide: []plan.Found{{Path: "/proc/kallsyms"}, {Path: "/proc/bus", Dir: true}}, Hold: plan.ReadOnly(),
		BootID: []byte("00000000-0000-4000-8000-000000000000\n"),
		Bounds: []plan.Bound{{"max_user_namespaces", 0}, {"max_inotify_watches", 4096}},
	}
}

func image() plan.Facts {
	f := host()
	f.Base, f.Image, f.System, f.Etc, f.VarTmp = plan.OnImage, "/store/sha256/abc", nil, nil, true
	f.Passwd, f.Groups = "root:x:0:0:root:/root:/bin/bash\n", "root:x:0:\n"
	return f
}

// engine is what the inside of a container finds once surplus mounts are away: of Podman's, which
// leaves a file open.
func engine() plan.Facts {
	return plan.Facts{Base: plan.OnEngine, CPUs: true, Hide: []plan.Found{{Path: "/proc/timer_list"}}, GID: 1001,
		BootID: host().BootID, Passwd: "root:x:0:0:root:/root:/bin/bash\n", Groups: "root:x:0:\n"}
}

// project is what every run has: a project and a private home.
func project() sandbox.Spec {
	return sandbox.Spec{
		ID: "s1", Name: "Project", Argv: []string{"agent"}, Dir: "/home/me/project", Network: true,
		User: sandbox.User{ID: 1000, Name: "me", Home: "/home/me"}, Denied: []string{"/home/me/.ssh", "/run/docker.sock"},
		Binds: []sandbox.Bind{
			{Source: "/data/homes/1", Target: "/home/me", Access: sandbox.ReadWrite},
			{Source: "/home/me/project", Target: "/home/me/project", Access: sandbox.ReadWrite},
		},
		Files: []sandbox.File{
			{Path: "/etc/ssl/certs/ca-certificates.crt", From: "/etc/ssl/certs/ca-certificates.crt", Data: []byte("own"), Mode: 0o644},
			{Path: "/etc/gitconfig", Data: []byte("[core]\n"), Mode: 0o644}},
		Links: []sandbox.Link{{Path: "/.cloister/bin/git-credential-cloister", Target: "hostexec"}},
		Protect: []sandbox.Protect{
			{Target: "/home/me/project/.git", Pin: true},
			{Target: "/home/me/project/.git/config", File: true},
			{Target: "/home/me/project/.git/hooks"},
		},
	}
}

func with(change func(*sandbox.Spec)) sandbox.Spec {
	s := project()
	change(&s)
	return s
}

// TestGolden holds the list of each kind of run to what a reviewer has read:
// go test ./sandbox/plan -update.
func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		facts plan.Facts
		spec  sandbox.Spec
	}{
		"plain": {host(), project()},
		"worktree": {host(), with(func(s *sandbox.Spec) {
			s.Dir = "/home/me/project.trees/fix"
			s.Binds[1].Source, s.Binds[1].Target = "/home/me/project.trees/fix", "/home/me/project.trees/fix"
			s.Binds = append(s.Binds, sandbox.Bind{Source: "/home/me/project/.git", Target: "/home/me/project/.git"})
			s.Protect = []sandbox.Protect{{Target: "/home/me/project.trees/fix/.git", File: true}}
		})},
		"overlay": {host(), with(func(s *sandbox.Spec) {
			for i, dir := range []string{"home", "project"} {
				s.Binds[i].Overlay = true
				s.Binds[i].Upper = &sandbox.Upper{Store: "/data/state/w1", Dir: "2/" + dir, Work: "work/" + dir,
					Lower: []string{"1/" + dir, "0/" + dir}}
			}
		})},
		"scratch": {host(), with(func(s *sandbox.Spec) {
			s.Binds[0].Overlay, s.Binds[1].Overlay = true, true
			s.Network = false
		})},
		"gated": {host(), with(func(s *sandbox.Spec) {
			s.Peers = &sandbox.Peers{Self: 1, Others: []uint8{2}, Names: []sandbox.PeerName{{Number: 1, Name: "agent"}, {Number: 2, Name: "db"}}}
			s.Permits = sandbox.Permits{Opens: true, Programs: true, List: []sandbox.Permit{
				{Path: "/usr", Dir: true, Read: true, Exec: true}, {Path: "/home/me/project", Dir: true, Read: true, Write: true}}}
		})},
		"image": {image(), project()},
		"exposes that overlap the project": {host(), with(func(s *sandbox.Spec) {
			s.Binds = append(s.Binds,
				sandbox.Bind{Source: "/srv/data", Target: "/home/me/project/data"},
				sandbox.Bind{Source: "/home/me/project/vendor", Target: "/home/me/project/vendor"},
				sandbox.Bind{Source: "/srv/key", Target: "/home/me/project/key", File: true})
		})},
		"exposes below var tmp": {host(), with(func(s *sandbox.Spec) {
			s.Binds = append(s.Binds, sandbox.Bind{Source: "/var/tmp/cache", Target: "/var/tmp/cache", Access: sandbox.ReadWrite})
		})},
		"protected absent paths": {host(), with(func(s *sandbox.Spec) {
			s.Protect = append(s.Protect,
				sandbox.Protect{Target: "/home/me/project/.envrc", File: true, Empty: true, Yields: true},
				sandbox.Protect{Target: "/home/me/project/.vscode", Empty: true, Yields: true},
				sandbox.Protect{Target: "/home/me/project/.claude", Empty: true},
				sandbox.Protect{Target: "/home/me/project/.env", File: true, Instead: "/.cloister/instead/env"},
				sandbox.Protect{Target: "/home/me/project/agent.sock", File: true, Empty: true, Fleeting: true})
			s.Files = append(s.Files, sandbox.File{Path: "/.cloister/instead/env", Data: []byte("A=\n"), Mode: 0o444})
		})},
		"docker inside": {engine(), with(func(s *sandbox.Spec) {
			s.Protect = append(s.Protect, sandbox.Protect{Target: "/home/me/project/.envrc", File: true, Empty: true, Yields: true})
			s.Binds[1].Overlay = true
		})},
		"built by root's helper": {func() plan.Facts { f := host(); f.Bounds = nil; return f }(), project()},
		"hosted kernel": {func() plan.Facts {
			f := host()
			f.Hosted = &plan.Hosted{Shown: []sandbox.Bind{{Source: "/usr/lib/cloister/first", Target: "/run/.cloister/first", File: true}}}
			return f
		}(), project()},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, s := range plan.Of(c.spec, c.facts) {
				text.WriteString(line(s) + "\n")
			}
			golden(t, strings.ReplaceAll(name, " ", "_"), text.String())
		})
	}
}

// TestStage holds what lies beside the view of a hosted kernel.
func TestStage(t *testing.T) {
	f := host()
	f.Hosted = &plan.Hosted{
		Program: sandbox.Bind{Source: "/usr/lib/cloister/kernel", Target: "/kernel", File: true},
		Files:   []sandbox.File{{Path: "/state/box.json", Data: []byte("{}"), Mode: 0o444}},
		Devices: []string{"kvm"}, System: true, Bounds: []plan.Bound{{"max_user_namespaces", 64}},
	}
	var text strings.Builder
	for _, s := range plan.New(f).Stage() {
		text.WriteString(line(s) + "\n")
	}
	golden(t, "stage", text.String())
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("not what %s holds (-want +got):\n%s", file, diff)
	}
}

// TestOrder: whatever a Spec says, all that is shown comes before what protects it, ancestors
// keep their place, and after the seal nothing more is made.
func TestOrder(t *testing.T) {
	for name, f := range map[string]plan.Facts{"host": host(), "image": image(), "engine": engine()} {
		t.Run(name, func(t *testing.T) {
			p := plan.New(f)
			p.Ground()
			s := project()
			list := p.Rest(s)
			last := func(is func(plan.Step) bool) int {
				for i, step := range slices.Backward(list) {
					if is(step) {
						return i
					}
				}
				return -1
			}
			bind := last(func(s plan.Step) bool { _, ok := s.(plan.Bind); return ok })
			first := slices.IndexFunc(list, func(s plan.Step) bool { _, ok := s.(plan.Cover); return ok })
			if bind < 0 || first < bind {
				t.Errorf("a path is protected by step %d, and something is shown by step %d", first, bind)
			}
			if _, ok := list[len(list)-1].(plan.Seal); !ok {
				t.Errorf("the last step is %T", list[len(list)-1])
			}
			at := 0
			for _, step := range list {
				if c, ok := step.(plan.Cover); ok {
					if c.Protect != s.Protect[at] {
						t.Errorf("%v is covered in the place of %v", c.Target, s.Protect[at].Target)
					}
					at++
				}
			}
		})
	}
}

// TestPure: the same facts and Spec give the same list, and a list of one leaves the other as it was.
func TestPure(t *testing.T) {
	f, s := host(), project()
	one := plan.Of(s, f)
	if diff := cmp.Diff(one, plan.Of(s, f)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(project(), s); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(host(), f); diff != "" {
		t.Error(diff)
	}
}

// TestHostname: names that no host could have become such that one can.
func TestHostname(t *testing.T) {
	for name, want := range map[string]string{"My Box": "my-box", "--": "cloister", "": "cloister", "ä": "cloister",
		strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62), "UP": "up"} {
		if got := plan.Hostname(name); got != want || plan.Hostname(got) != got {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
