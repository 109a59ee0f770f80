package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/internal/xdg"
	"cloister/workspace"
	"cloister/workspace/hostgit"
	"cloister/workspace/obeyed"

	"golang.org/x/term"
)

// Resolver resolves paths of this machine, by what this instance's payloads could write.
func (a *App) Resolver(d xdg.Dirs) (*resolve.Resolver, error) {
	places, err := taint.Read(d.State)
	if err != nil {
		return nil, err
	}
	return resolve.New(places, a.UID), nil
}

// Obeys is the person, whose git obeys projects.
func (a *App) Obeys(ctx context.Context, d xdg.Dirs, host *resolve.Resolver) obeyed.Person {
	return obeyed.Person{Home: a.Home(), Git: func(at hostgit.Folders) hostgit.Configuration {
		return hostgit.Sources(ctx, host, d.Data, at, hostgit.ConfigVariables(a.Env))
	}}
}

// DirsAndResolver is host with Cloister's folders.
func (a *App) DirsAndResolver() (d xdg.Dirs, host *resolve.Resolver, err error) {
	if d, err = a.Dirs(); err == nil {
		host, err = a.Resolver(d)
	}
	return d, host, err
}

// Typed is where a file lies whose path a person typed, by the resolver's word.
func (a *App) Typed(path string) (string, error) {
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return "", err
	}
	f, err := host.Typed(path)
	if err == nil && f.Place != "" {
		a.Notice("cloister: a cloister could write %s: look at what %s says", f.Place, path)
	}
	return f.Real, err
}

// FindProject is the project of a folder, which the person alone chose, and
// whose repository is theirs.
func (a *App) FindProject(dir string) (workspace.Project, error) {
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return workspace.Project{}, err
	}
	return a.ProjectAt(dir, host)
}

func (a *App) ProjectAt(dir string, host *resolve.Resolver) (workspace.Project, error) {
	if fi, err := os.Stat(dir); dir != "." && (err != nil || !fi.IsDir()) {
		if _, err := workspace.Find(dir); err != nil {
			return workspace.Project{}, Usage("", "%v", err)
		}
	}
	if abs, err := filepath.Abs(dir); err == nil {
		// Where nothing is found, workspace.Find says so, and follows no link either.
		if f, err := host.Find(abs); err == nil {
			if err := f.Chosen(); err != nil {
				return workspace.Project{}, fmt.Errorf("find project: %w", err)
			}
			dir = f.Real
		}
	}
	p, err := workspace.Find(dir)
	if err != nil {
		return p, err
	}
	return p, p.Owned(a.UID, a.Home(), host)
}

// Confirm asks a person at a terminal; without one the answer is no.
func (a *App) Confirm(question string) bool {
	if !term.IsTerminal(int(a.Stdin.Fd())) || !term.IsTerminal(int(a.Stderr.Fd())) {
		return false
	}
	fmt.Fprintf(a.Stderr, "cloister: %s [y/N] ", question)
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer is no
	word := strings.ToLower(strings.TrimSpace(answer))
	return word == "y" || word == "yes"
}
