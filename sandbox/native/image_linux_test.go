package native_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// onImage starts everything on an image.
type onImage struct {
	*native.Driver
	root string
}

func (d onImage) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	s.Root = sandbox.Root{Dir: sandbox.HostPath(d.root), ID: "sha256:test"}
	return d.Driver.Start(ctx, s, w)
}

// TestDriverOnImage: with an image a cloister keeps every promise that it keeps
// without.
func TestDriverOnImage(t *testing.T) {
	root := system.Make(t)
	sandboxtest.Run(t, func() sandbox.Driver { return onImage{native.New("test"), root} })
}

// TestImageRoot looks at what is the image's and what is not.
func TestImageRoot(t *testing.T) {
	root := system.Make(t, "sh", "cat", "ls", "grep", "head", "cut", "tr", "sed", "sort", "wc", "rm")
	for name, text := range map[string]string{"etc/only-here": "image", "srv/data": "image", "var/lib/x": "image", "tmp/hidden": "hidden", "etc/hostname": "builder"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "var/tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := sandboxtest.New(t, onImage{native.New("test"), root})
	before := tree(t, root)
	out := h.Run(t, sandboxtest.Options{}, "sh", "-c", `
cat /etc/only-here /srv/data /var/lib/x; cat /etc/hostname; ls /tmp/hidden 2>&1 | grep -c 'No such'
head -1 /etc/passwd | cut -d: -f1 2>/dev/null; grep -c imaginary /etc/passwd; grep nameserver /etc/resolv.conf
echo x > /var/tmp/x && cat /tmp/x; ls -d /work; ls -id / /.. | tr -s ' ' | sed 's/ *\([0-9]*\).*/\1/' | sort -u | wc -l
for f in /etc/only-here /srv/new /usr/bin/sh /etc/passwd; do echo evil > $f; done 2>/dev/null
rm -f /etc/only-here 2>/dev/null; ls /opt /boot /lost+found 2>/dev/null; true`)
	want := []string{"imageimageimagetest-box", "1", "agent", "1", "nameserver 198.18.0.1", "x", "/work", "1"}
	if out.Err != nil || strings.Join(strings.Fields(out.Stdout), " ") != strings.Join(want, " ") {
		t.Errorf("got %+v, want %q", out, want)
	}
	if after := tree(t, root); after != before {
		t.Errorf("the image was changed:\n%s\nbefore:\n%s", after, before)
	}
}

// tree tells what could have changed in a root.
func tree(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"etc", "srv", "usr/bin", "var", "tmp", "home", "dev", "proc", "run", ""} {
		entries, err := os.ReadDir(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			fi, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(name + "/" + e.Name() + " " + fi.Mode().String() + " " + fi.ModTime().String() + "\n")
		}
	}
	return b.String()
}

// TestHostileImageRoot: links of an image that lead where something is made or
// mounted lead nowhere but inside.
func TestHostileImageRoot(t *testing.T) {
	outside := t.TempDir()
	for _, tt := range []struct{ link, to string }{
		{"etc", outside}, {"home", outside}, {"dev", outside}, {"run", outside}, {"tmp", outside}, {"proc", outside}, {"sys", "/"}, {"var", "../../../.." + outside}, {"var", "/var"},
		{"etc/passwd", "/etc/shadow"}, {"etc/ssl", outside}, {"etc/hosts", filepath.Join(outside, "hosts")}, {"work", outside},
	} {
		t.Run(tt.link, func(t *testing.T) {
			root := system.Make(t, "sh", "cat", "ls")
			at := filepath.Join(root, tt.link)
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(tt.to, at); err != nil {
				t.Fatal(err)
			}
			h := sandboxtest.New(t, onImage{native.New("test"), root})
			// It may be refused; it may not reach outside.
			out := h.Run(t, sandboxtest.Options{}, "sh", "-c", "cat /etc/passwd; ls /..")
			if strings.Contains(out.Stdout, "root:$") || strings.Contains(out.Stdout, "root:*") || strings.Contains(out.Stdout, "lost+found") {
				t.Errorf("%+v", out)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
				t.Errorf("outside: %v, %v", entries, err)
			}
		})
	}
}

// TestImageLinksAboveTheProject: where the image has links or files in the way of
// the project, the project is at its own path all the same, and stays protected.
func TestImageLinksAboveTheProject(t *testing.T) {
	for _, to := range []string{"/srv/elsewhere", "usr", "/nowhere"} {
		t.Run(strings.TrimPrefix(to, "/"), func(t *testing.T) {
			root := system.Make(t, "sh", "cat", "sleep", "rm")
			if err := os.RemoveAll(filepath.Join(root, "var")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, filepath.Join(root, "var")); err != nil {
				t.Fatal(err)
			}
			h := sandboxtest.New(t, onImage{native.New("test"), root})
			h.Project = filepath.Join(lasting(t), "project")
			h.Write(t, ".envrc", "original")
			out := h.Run(t, sandboxtest.Options{}, "sh", "-c", "pwd; sleep 0.6; echo evil > .envrc; rm -f .envrc; cat .envrc; echo made > made")
			if out.Err != nil || out.Stdout != h.Project+"\noriginal" {
				t.Errorf("%+v", out)
			}
			if text, err := os.ReadFile(filepath.Join(h.Project, "made")); err != nil || string(text) != "made\n" {
				t.Errorf("the project is not the host's: %q, %v", text, err)
			}
		})
	}
}

// TestProjectBelowNoVarTmp shows a project below /var/tmp on an image that has none.
func TestProjectBelowNoVarTmp(t *testing.T) {
	for name, lacking := range map[string]string{"no /var/tmp": "var/tmp", "no /var": "var"} {
		t.Run(name, func(t *testing.T) {
			root := system.Make(t, "sh", "cat")
			if err := os.MkdirAll(filepath.Join(root, "var"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(root, lacking)); err != nil {
				t.Fatal(err)
			}
			h := sandboxtest.New(t, onImage{native.New("test"), root})
			h.Project = filepath.Join(lasting(t), "project")
			h.Write(t, "f", "original")
			out := h.Run(t, sandboxtest.Options{}, "sh", "-c", "pwd; cat f; echo x >/var/tmp/y; cat /tmp/y")
			if out.Err != nil || out.Stdout != h.Project+"\noriginalx\n" {
				t.Errorf("%+v", out)
			}
		})
	}
}

// lasting is a folder below /var, which is the image's inside.
func lasting(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "cloister")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
