package beside

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cloister/devcontainer/services"
	"cloister/sandbox"
)

// TestLands gives an image links, and a compose file targets that they lead elsewhere.
func TestLands(t *testing.T) {
	image := t.TempDir()
	for _, dir := range []string{"run", "data", "var", "etc"} {
		if err := os.Mkdir(filepath.Join(image, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"root": "/", "up": "../../../..", "var/run": "/run", "c": ".cloister", "etc/x": "hosts", "data/l": "/sys", "loop": "loop", "h": "home/ada",
	} {
		if err := os.Symlink(to, filepath.Join(image, name)); err != nil {
			t.Fatal(err)
		}
	}
	m := &member{Service: Service{Root: sandbox.Root{Dir: sandbox.HostPath(image)}}}
	volume := func(target string) services.Mount { return services.Mount{Kind: services.OfVolume, Target: target} }
	run := services.Mount{Kind: services.OfTmpfs, Target: "/run"}
	for target, lands := range map[string]string{
		"/data": "/data", "/new/data": "/new/data", "/var/run/postgresql": "/run/postgresql", "/root/data": "/data", "/up/x": "/x", "/homer": "/homer",
	} {
		out, err := m.lands([]services.Mount{volume(target), run}, "/home/ada")
		if err != nil || out[0].Target != lands {
			t.Errorf("%s: %+v, %v, want %s", target, out, err, lands)
		}
	}
	for _, list := range [][]services.Mount{
		{volume("/root/.cloister")}, {volume("/up/.cloister/x")}, {volume("/c")}, {volume("/root")}, {volume("/root/proc")},
		{volume("/data/l")}, {volume("/etc/x")}, {volume("/etc")}, {volume("/h")}, {volume("/home/ada/x")}, {volume("/home")},
		{volume("/data"), volume("/data/sub")}, {volume("/root/data/sub"), volume("/data")},
		{{Kind: services.OfProject, Target: "/src"}, volume("/src/x")},
	} {
		var not *NotThere
		if out, err := m.lands(list, "/home/ada"); !errors.As(err, &not) {
			t.Errorf("%+v: %+v, %v", list, out, err)
		}
	}
	if out, err := m.lands([]services.Mount{volume("/loop/x")}); err == nil {
		t.Errorf("a loop leads to %+v", out)
	}
	own := services.Mount{Kind: services.OfProject, Target: "/p"}
	if _, err := m.lands([]services.Mount{own}, "/home/ada", "/p"); err != nil {
		t.Errorf("the project at its own place: %v", err)
	}
	if _, err := m.lands([]services.Mount{volume("/p/x")}, "/home/ada", "/p"); err == nil {
		t.Error("a volume in the project")
	}
}

// TestCopiedWhole: a copy that ends in an error is none, and says so.
func TestCopiedWhole(t *testing.T) {
	hidden := errors.New("hidden inside")
	p := &Plan{o: Options{Copy: func(string, *tar.Writer) error { return hidden }}}
	if _, err := p.copied("x", t.TempDir()); !errors.Is(err, hidden) {
		t.Errorf("%v, want %v", err, hidden)
	}
}

// TestSessionNames: services whose names differ beyond what a session's name keeps have two.
func TestSessionNames(t *testing.T) {
	list := []Service{}
	for _, name := range []string{"my-very-long-service-one", "my-very-long-service-two", "a.b", "a_b"} {
		list = append(list, Service{Service: services.Service{Name: name, Command: []string{"x"}}})
	}
	p, err := New(Options{List: list, Project: "/p", Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range p.list {
		if seen[m.session] {
			t.Errorf("two are called %s", m.session)
		}
		seen[m.session] = true
	}
}
