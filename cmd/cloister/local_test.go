package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// notOnUser are the stories that say nothing of the user level, or that are of another.
var notOnUser = map[string]string{
	"user_level":       "it is about this level, and root's",
	"image":            "images are refused by name",
	"devcontainer_run": "its image is refused by name",
	"odd_mounts":       "it mounts in a user namespace of its own, in which root is no one, and the helper another",
}

// TestUserLevelStories tells the stories again with every run and start on the user level, as an
// ordinary user beside whom root's helper listens: CLOISTER_LOCAL_STORIES says so.
func TestUserLevelStories(t *testing.T) {
	if os.Getenv("CLOISTER_LOCAL_STORIES") == "" {
		t.Skip("CLOISTER_LOCAL_STORIES does not say that root's helper listens for this user")
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	p := stories(t, false)
	for _, file := range files {
		if notOnUser[strings.TrimSuffix(filepath.Base(file), ".txtar")] == "" {
			p.Files = append(p.Files, file)
		}
	}
	p.Setup = func(e *testscript.Env) error {
		if err := setUpStory(e); err != nil {
			return err
		}
		e.Setenv("STORY_LEVEL", "user")
		e.Setenv(storyFlags, "--isolation user")
		return nil
	}
	testscript.Run(t, p)
}
