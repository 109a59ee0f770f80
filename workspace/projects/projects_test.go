package projects_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/config"
	"cloister/internal/xdg"
	"cloister/workspace/projects"
)

func dirs(t *testing.T) xdg.Dirs {
	top := t.TempDir()
	return xdg.Dirs{Config: filepath.Join(top, "config"), State: filepath.Join(top, "state")}
}

func none(t *testing.T) func(error) {
	return func(err error) { t.Errorf("complained: %v", err) }
}

func TestRegisterNamesEachFolderOnce(t *testing.T) {
	t.Parallel()
	d := dirs(t)
	first, err := projects.Register(d, "/a/shop", none(t))
	if err != nil || first.Name != "shop" {
		t.Fatalf("first is %+v, %v", first, err)
	}
	second, err := projects.Register(d, "/b/shop", none(t))
	if err != nil || !strings.HasPrefix(second.Name, "shop-") {
		t.Fatalf("second is %+v, %v", second, err)
	}
	again, err := projects.Register(d, "/b/shop", none(t))
	if err != nil || again != second {
		t.Errorf("again is %+v, %v, want %+v", again, err, second)
	}
	if err := first.Forget(d); err != nil {
		t.Fatal(err)
	}
	all, err := projects.ReadAll(d, func(name string, err error) { t.Errorf("%s: %v", name, err) })
	if err != nil || len(all) != 1 || all[0] != second {
		t.Errorf("remembered are %+v, %v", all, err)
	}
}

func TestWhatSaysNothingSoundIsKeptAside(t *testing.T) {
	t.Parallel()
	d := dirs(t)
	if _, err := projects.Register(d, "/a/shop", none(t)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(projects.Folder(d), "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files are %q, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var complaints []string
	k, err := projects.Register(d, "/a/shop", func(err error) { complaints = append(complaints, err.Error()) })
	if err != nil || k.Name != "shop" {
		t.Fatalf("registered as %+v, %v", k, err)
	}
	if len(complaints) != 1 || !strings.Contains(complaints[0], "is kept as "+files[0]+".bad") {
		t.Errorf("complaints are %q", complaints)
	}
}

func TestProposal(t *testing.T) {
	t.Parallel()
	const widens = "version: 1\nproxy: {allow: [{domain: a.example.com}]}\n"
	for _, c := range []struct{ name, text, trusted, want string }{
		{"absent", "", "", "none"},
		{"takes away", "version: 1\nproxy: {deny: [{domain: a.example.com}]}\n", "", "narrows"},
		{"asks for more", widens, "", "waits"},
		{"agreed to", widens, widens, "trusted"},
		{"changed since", widens, widens + "# later\n", "waits"},
		{"unreadable", "version: [", "", "bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if c.text != "" {
				if err := os.WriteFile(filepath.Join(root, config.ProjectFile), []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			k := projects.Unused(root)
			if c.trusted != "" {
				k.Digest = config.Digest([]byte(c.trusted))
			}
			if got, _ := k.Proposal(dirs(t), root, config.Default()); got != c.want {
				t.Errorf("the state is %s, want %s", got, c.want)
			}
		})
	}
}

// An agreement is for the bytes that were shown, and over no other answer.
func TestAgree(t *testing.T) {
	d, complain := xdg.Dirs{State: t.TempDir(), Config: t.TempDir()}, func(err error) { t.Error(err) }
	shown, err := projects.Register(d, "/src/app", complain)
	if err != nil {
		t.Fatal(err)
	}
	agreed, err := shown.Agree(d, []byte("version: 1\n"))
	if err != nil || agreed.Trusted != "version: 1\n" || agreed.Digest != config.Digest([]byte("version: 1\n")) {
		t.Fatalf("%+v, %v", agreed, err)
	}
	if kept, err := projects.Read(d, "/src/app"); err != nil || kept.Digest != agreed.Digest {
		t.Fatalf("%+v, %v", kept, err)
	}
	if _, err := shown.Agree(d, []byte("version: 1\n")); err != nil {
		t.Errorf("the same answer twice: %v", err)
	}
	if _, err := shown.Agree(d, []byte("version: 2\n")); err == nil || !strings.Contains(err.Error(), "another version was agreed to meanwhile") {
		t.Errorf("over another answer: %v", err)
	}
	if kept, err := projects.Read(d, "/src/app"); err != nil || kept.Trusted != "version: 1\n" {
		t.Errorf("a refused answer was kept: %+v, %v", kept, err)
	}
	if err := shown.Forget(d); err != nil {
		t.Fatal(err)
	}
	if _, err := shown.Agree(d, []byte("version: 1\n")); err == nil || !strings.Contains(err.Error(), "was forgotten meanwhile") {
		t.Errorf("of a forgotten project: %v", err)
	}
}

// The user's file is made once, and what is there stays.
func TestMakeSettings(t *testing.T) {
	d := xdg.Dirs{Config: t.TempDir()}
	k := projects.Unused("/src/app")
	file, err := k.MakeSettings(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := config.LoadProject(file); err != nil {
		t.Errorf("what is made does not load: %v", err)
	}
	if err := os.WriteFile(file, []byte("version: 1\nroot: /src/app\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.MakeSettings(d); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "version: 1\nroot: /src/app\n" {
		t.Errorf("%q, %v", text, err)
	}
}
