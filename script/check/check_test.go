package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheUserDoesNotMatterWhereItIsSaid(t *testing.T) {
	asks := regexp.MustCompile(`\bGete?[ug]id\b|"os/user"|internal/needs"|os\.Ch(mod|own)|SysProcAttr|unix\.Mount|exec\.Command|Umask|peercred"|internal/xdg"`)
	for pkg, why := range independent {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
		if err != nil || len(files) == 0 || why == "" {
			t.Errorf("%s: %d files, %q, %v", pkg, len(files), why, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if found := asks.Find(text); found != nil {
				t.Errorf("%s has %s: its tests depend on the user", file, found)
			}
		}
	}
}

// A package of which an ordinary user runs a few tests asks for a user in the files of
// those alone, and is none of those that are tested once.
func TestFewTestsDependOnTheUser(t *testing.T) {
	asks := regexp.MustCompile(`\bGete?[ug]id\b|"os/user"|os\.Ch(mod|own)|SysProcAttr|unix\.Mount|Umask|peercred"|internal/xdg"`)
	for pkg, pattern := range dependent {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
		if err != nil || len(files) == 0 || independent[pkg] != "" || onceEnough[pkg] != "" {
			t.Errorf("%s: %d files, %v", pkg, len(files), err)
		}
		run, seen := regexp.MustCompile(pattern), 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := asks.FindString(string(text))
			if found == "" || strings.HasPrefix(string(text), "//go:build differential\n") {
				continue
			}
			names := regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(text), -1)
			if len(names) == 0 {
				t.Errorf("%s has %s: all its package's tests depend on the user", file, found)
			}
			for _, name := range names {
				if seen++; !run.MatchString(name[1]) {
					t.Errorf("%s has %s: %s depends on the user", file, found, name[1])
				}
			}
		}
		if seen == 0 {
			t.Errorf("%s: no file asks for a user: it is independent", pkg)
		}
	}
	for pkg, why := range onceEnough {
		if _, err := os.Stat(filepath.Join("../..", pkg)); err != nil || why == "" || independent[pkg] != "" {
			t.Errorf("%q: %q, %v", pkg, why, err)
		}
	}
}

// Every name in the patterns of root's part of the tests is that of a test.
func TestRootsTestsAreThere(t *testing.T) {
	for pkg, pattern := range aboveAll {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		if err != nil || len(files) == 0 || !slices.Contains(slowFirst, pkg) {
			t.Errorf("%s: %d files, %v", pkg, len(files), err)
		}
		var names string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range regexp.MustCompile(`(?m)^func Test(\w+)\(t `).FindAllStringSubmatch(string(text), -1) {
				names += " " + name[1]
			}
		}
		scripts, err := filepath.Glob(filepath.Join("../..", pkg, "testdata/script/*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range scripts {
			names += " " + strings.TrimSuffix(filepath.Base(file), ".txtar")
		}
		for _, name := range regexp.MustCompile(`[\w.*]+`).FindAllString(pattern, -1) {
			name = strings.TrimPrefix(name, "Test")
			if name != "" && !regexp.MustCompile(`(^| )`+name+`( |$)`).MatchString(names) {
				t.Errorf("%s has no test %s", pkg, name)
			}
		}
	}
}

func TestThePlanHasEveryPart(t *testing.T) {
	planned := slices.Concat([]string{"test", "user"}, background, afterOthers, besideWaiting, alone)
	for _, name := range planned {
		if find(name) == nil {
			t.Errorf("no part %s", name)
		}
	}
	if len(planned)+12 != len(parts) {
		t.Errorf("%d parts planned of %d: all but vet, root, gvisor, stories, microvm, fuzz, differential, lsm, clients, time, layers and columns", len(planned), len(parts))
	}
}
