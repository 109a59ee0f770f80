package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/internal/shellword"
	"cloister/internal/xdg"
	"cloister/session/launch"
	"cloister/workspace"
	"cloister/workspace/identity"

	"golang.org/x/term"
)

// host resolves paths of this machine, by what this instance's payloads could write.
func (a *app) host(d xdg.Dirs) (*resolve.Resolver, error) {
	places, err := taint.Read(d.State)
	if err != nil {
		return nil, err
	}
	return resolve.New(places, a.uid), nil
}

// resolver is host with Cloister's folders.
func (a *app) resolver() (d xdg.Dirs, host *resolve.Resolver, err error) {
	if d, err = a.dirs(); err == nil {
		host, err = a.host(d)
	}
	return d, host, err
}

// typed is where a file lies whose path a person typed, by the resolver's word.
func (a *app) typed(path string) (string, error) {
	_, host, err := a.resolver()
	if err != nil {
		return "", err
	}
	f, err := host.Typed(path)
	if err == nil && f.Place != "" {
		a.notice("cloister: a cloister could write %s: look at what %s says", f.Place, path)
	}
	return f.Real, err
}

// findProject is the project of a folder, which nobody but the person chose, and
// whose repository is theirs.
func (a *app) findProject(dir string) (workspace.Project, error) {
	_, host, err := a.resolver()
	if err != nil {
		return workspace.Project{}, err
	}
	return a.projectAt(dir, host)
}

func (a *app) projectAt(dir string, host *resolve.Resolver) (workspace.Project, error) {
	if fi, err := os.Stat(dir); dir != "." && (err != nil || !fi.IsDir()) {
		if _, err := workspace.Find(dir); err != nil {
			return workspace.Project{}, wrongWords("", "%v", err)
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
	return p, p.Owned(a.uid, a.home(), host)
}

// same holds a project to what it was at its last use, or has the person's word.
func (a *app) same(f *runFlags, host *resolve.Resolver, p workspace.Project) error {
	err := identity.Check(host.Places(), p)
	other, is := errors.AsType[*identity.Otherwise](err)
	if !is {
		return err
	}
	if !slices.Contains(f.Accepted(), launch.ResidueIdentity) && !a.confirm(other.Question()) {
		words := slices.Concat([]string{"cloister"}, strings.Fields(f.Verb), []string{"-C", string(p.Dir), "--accept", "residue:" + launch.ResidueIdentity})
		hint := "if that is right: " + shellword.Line(words...)
		if f.Branch != "" {
			hint = "if that is right, add --accept residue:" + launch.ResidueIdentity
		}
		if other.Gone || other.Was.Path == other.Root {
			return hinted(other, hint, "else look at "+other.Was.Path+" first: a cloister could write there")
		}
		return hinted(other, hint, "or start in the project: -C "+cmp.Or(other.Now, other.Was.Path))
	}
	if other.Gone {
		if err := host.Places().Forget(other.Was.Path); err != nil {
			return err
		}
	}
	// Now, and not when the session begins: start asks here, and has another process
	// begin it.
	return host.Places().Enter(taint.Place{Kind: taint.Project, Path: string(p.Root), Pin: workspace.PinOf(p)})
}

// confirm asks a person at a terminal; nobody else says yes.
func (a *app) confirm(question string) bool {
	if !term.IsTerminal(int(a.stdin.Fd())) || !term.IsTerminal(int(a.stderr.Fd())) {
		return false
	}
	fmt.Fprintf(a.stderr, "cloister: %s [y/N] ", question)
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // no answer is no
	word := strings.ToLower(strings.TrimSpace(answer))
	return word == "y" || word == "yes"
}
