package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	claim "cloister/internal/needs"

	"github.com/rogpeppe/go-internal/testscript"
)

// notInContainers are the stories that say nothing of containers, or that are of
// the native driver alone, each with the reason.
var notInContainers = map[string]string{
	"doctor":           "its beginning is that there is no folder of data; here the store of images is there",
	"words":            "its beginning is that there is no folder of data; here the store of images is there",
	"unwritable":       "it spoils the folder of data, in which the store of images lies here",
	"image":            "it tells of images natively, beginning with none",
	"keys":             "its bound of eight processes is finer than containers count: twelve are the first process's own threads",
	"caches":           "it builds with the host's toolchains; here they are the image's",
	"bad_start":        "it looks at the second process, which in containers is another one",
	"window_start":     "what the guardian starts has none of the flags that containers are asked for by here",
	"acp_ways":         "five sessions more say nothing of containers; the story acp is told here",
	"devcontainer_run": "its devcontainer names the image; here each run names another, and that one wins",
	"uninstall":        "it takes our images from the engine, which other stories use; containers/uninstall has an engine of its own",
	"exit_status":      "its hint names the host's folders; here it names the image",
}

// inShort are the stories that every change is held to; CLOISTER_TEST_LONG asks
// for all of them.
var inShort = []string{
	"acp", "approvals", "attack_descriptors", "attack_terminal", "devcontainer_services", "git", "hostexec", "list", "overlay", "protected", "publish", "refusal", "secret_bound", "start", "streams", "window", "worktree",
}

// TestEngineStories tells those of testdata/containers, and the other stories again
// with every run and start in containers of the engine that CLOISTER_TEST_ENGINE
// names: what works natively works there. The image is the one of the store that
// CLOISTER_TEST_IMAGES names.
func TestEngineStories(t *testing.T) {
	socket, images := os.Getenv("CLOISTER_TEST_ENGINE"), os.Getenv("CLOISTER_TEST_IMAGES")
	if socket == "" || images == "" {
		claim.Missing(t, "docker", errors.New("CLOISTER_TEST_ENGINE and CLOISTER_TEST_IMAGES are not both set: script/test docker starts an engine for these stories"))
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	p := stories(t, false)
	for _, name := range []string{"build_refused", "devcontainer_build", "outage", "uninstall"} {
		p.Files = append(p.Files, "testdata/containers/"+name+".txtar")
	}
	if os.Getenv("CLOISTER_TEST_LONG") != "" {
		if p.Files, err = filepath.Glob("testdata/containers/*.txtar"); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if notInContainers[name] != "" {
			continue
		}
		if os.Getenv("CLOISTER_TEST_LONG") != "" || slices.Contains(inShort, name) {
			p.Files = append(p.Files, file)
		}
	}
	p.Setup = func(e *testscript.Env) error {
		if err := setUpStory(e); err != nil {
			return err
		}
		e.Setenv("DOCKER_HOST", "unix://"+socket)
		e.Defer(func() { endEngine(t, e.WorkDir) })
		script, err := os.ReadFile("testdata/containers/engine.sh")
		if err == nil {
			err = os.WriteFile(filepath.Join(e.WorkDir, "engine.sh"), script, 0o600)
		}
		if err != nil {
			return err
		}
		e.Setenv("STORY_LEVEL", "docker")
		e.Setenv(storyFlags, "--isolation docker --image cloister-base")
		data := filepath.Join(e.Getenv("XDG_DATA_HOME"), "cloister")
		if err := os.MkdirAll(data, 0o700); err != nil {
			return err
		}
		return os.Symlink(images, filepath.Join(data, "images"))
	}
	testscript.Run(t, p)
}

// endEngine ends the engine of a story's own, where the story failed before it did.
func endEngine(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "e", "pid")); err != nil {
		return
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "engine.sh", "end")
	c.Dir, c.Env = dir, append(os.Environ(), "WORK="+dir)
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("end the engine: %v\n%s", err, text)
	}
}
