package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// notOnGVisor are the stories that say nothing of the gvisor level, or that are of the
// native driver alone, each with the reason.
var notOnGVisor = map[string]string{
	"approvals_notify":    "its last wait, for a program that failed to be tried again, did not end in two minutes at a load of 30: not understood yet",
	"attack_kill":         "it looks for the command among the host's processes, where gVisor's are not; TestEnds of the driver kills each of them",
	"attack_replace":      "it reads in mountinfo that a path is covered again, which gVisor does not list; the driver's suite writes instead",
	"files_asked":         "a call is held until a person answers by native alone; elsewhere a start with such a statement is refused by name",
	"files_hostile":       "what commands do with files and programs is on record natively, and by the kernel's judge",
	"files_learned":       "what commands do with files and programs is on record natively, and by the kernel's judge",
	"files_pattern":       "a pattern of files is refused by name: only native names what appears later",
	"files_recorded":      "what commands do with files and programs is on record natively, and by the kernel's judge",
	"files_restart":       "what commands do with files and programs is on record natively, and by the kernel's judge",
	"programs_asked":      "a call is held until a person answers by native alone; elsewhere a start with such a statement is refused by name",
	"programs_asked_held": "a call is held until a person answers by native alone; elsewhere a start with such a statement is refused by name",
	"programs_digest":     "lists of programs are refused by name",
	"protected_words":     "a folder that is held and is not there answers Permission denied, at which no line is said",
}

// TestGVisorStories tells the stories again with every run and start on the gvisor level, with
// the kernel's program in the folder that CLOISTER_GVISOR names: what works natively works there.
func TestGVisorStories(t *testing.T) {
	kernel := os.Getenv("CLOISTER_GVISOR")
	if kernel == "" {
		t.Skip("CLOISTER_GVISOR names no folder with the kernel's program: script/test gvisor builds it")
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	p := stories(t, true)
	for _, file := range files {
		if notOnGVisor[strings.TrimSuffix(filepath.Base(file), ".txtar")] == "" {
			p.Files = append(p.Files, file)
		}
	}
	p.Setup = func(e *testscript.Env) error {
		if err := setUpStory(e); err != nil {
			return err
		}
		e.Setenv("STORY_LEVEL", "gvisor")
		e.Setenv(storyFlags, "--isolation gvisor")
		e.Setenv("PATH", e.Getenv("PATH")+string(filepath.ListSeparator)+kernel)
		return nil
	}
	testscript.Run(t, p)
}
