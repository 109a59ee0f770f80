// Package dressed compares the second start of an unchanged devcontainer with what starts
// the same image without one.
//
// It makes projects with a devcontainer of an image alone, and of that image with a service
// beside it, agrees to them, starts each once, and names the commands that are timed. It
// times nothing itself.
//
// Most readers want [Measure].
package dressed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Engine names a start by an engine, Native one without.
const (
	Engine = "cloister in containers"
	Native = "cloister"
)

// Options are what the commands are made of.
type Options struct {
	Cloister string
	Dir      string   // where projects are made
	Docker   []string // the engine's client
	Limits   []string // of a docker run
	Image    string   // its name in the engine, with true and sleep
	Archive  string   // the same in a file
	// In is a command of the bench's world.
	In func(ctx context.Context, name string, args ...string) *exec.Cmd
	// Race times commands in turns.
	Race func(subject string, all map[string][]string) error
}

// said runs a command in a folder, and gives what it prints.
func (o Options) said(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := o.In(ctx, name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out)), err
}

// files of each project: its image is the agent's and the service's.
var files = map[string]map[string]string{
	"alone": {"devcontainer.json": `{"image": "@ID"}`},
	"with a service": {
		"devcontainer.json": `{"dockerComposeFile": "compose.yml", "service": "app"}`,
		"compose.yml":       "services:\n  app: {image: \"@ID\", depends_on: [db]}\n  db: {image: \"@ID\", command: [sleep, infinity]}\n",
	},
}

// Measure makes the projects, has the commands timed, and removes what the engine was given.
func Measure(ctx context.Context, o Options) (err error) {
	id, err := o.said(ctx, o.Dir, o.Cloister, "image", "pull", o.Archive)
	if err != nil {
		return err
	}
	defer func() {
		_, removed := o.said(context.WithoutCancel(ctx), o.Dir, o.Cloister, "image", "remove", id)
		err = errors.Join(err, removed)
	}()
	for _, kind := range []string{"alone", "with a service"} {
		if err := o.compare(ctx, kind, id); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) compare(ctx context.Context, kind, id string) error {
	dir := filepath.Join(o.Dir, "devcontainer "+kind)
	if err := o.project(ctx, dir, id, files[kind]); err != nil {
		return err
	}
	run := func(isolation string, words ...string) []string {
		return append([]string{o.Cloister, "run", "--isolation", isolation}, words...)
	}
	dressed := []string{"-C", dir, "--devcontainer", "--", "true"}
	for _, isolation := range []string{"docker", "native"} { // the first start
		if _, err := o.said(ctx, dir, o.Cloister, run(isolation, dressed...)[1:]...); err != nil {
			return err
		}
	}
	user := []string{"--user", fmt.Sprintf("%d:%d", max(os.Getuid(), 1), max(os.Getgid(), 1)), o.Image}
	plain := slices.Concat(o.Docker, o.Limits, user, []string{"true"})
	if kind != "alone" {
		service := slices.Concat(o.Docker, o.Limits[:1], []string{"-d"}, o.Limits[2:], user, []string{"sleep", "infinity"})
		script := fmt.Sprintf("s=$(%s) && %s && %s rm -f $s", strings.Join(service, " "), strings.Join(plain, " "), strings.Join(o.Docker, " "))
		plain = []string{"sh", "-c", script}
	}
	if err := o.Race("devcontainer "+kind+", in containers", map[string][]string{
		Engine: run("docker", dressed...), "docker run --rm": plain,
	}); err != nil {
		return err
	}
	return o.Race("devcontainer "+kind+", natively", map[string][]string{
		Native: run("native", dressed...), "without one": run("native", "--", "true"),
		"on its image": run("native", "--image", id, "--", "true"),
	})
}

// project makes a project with a devcontainer that is agreed to.
func (o Options) project(ctx context.Context, dir, id string, files map[string]string) error {
	inside := filepath.Join(dir, ".devcontainer")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(inside, name), []byte(strings.ReplaceAll(text, "@ID", id)), 0o600); err != nil {
			return err
		}
	}
	_, err := o.said(ctx, dir, o.Cloister, "devcontainer", "trust")
	return err
}
