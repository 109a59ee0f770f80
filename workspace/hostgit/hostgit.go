// Package hostgit runs git of the host in a repository that an agent may have written
// to.
//
// Promise: nothing that the repository configures is run, git writes to no file outside
// it, and it does not wait at a pipe.
//
// It speaks with no remote, and reads no configuration of the person's.
//
// Most readers want [Open].
package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cloister/host/resolve"
	"cloister/internal/realpath"
)

// A Repo is one repository that an agent may have written to. Nothing that the
// repository configures is run: hooks, filters, fsmonitor, signing, editors, pagers,
// transports are switched off for each call (HARDENING 5.6). The person's own
// configuration is not read either.
type Repo struct {
	git string // the program
	at  Folders
	off []string
}

// Folders are where a repository and one of its working trees lie.
type Folders struct {
	Common string // the repository's git folder
	Dir    string // that of the working tree; the same as Common for the main one
	Tree   string // the working tree; empty where none is meant
}

// quietGit are the settings that git obeys in every repository.
var quietGit = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.editor=false", "core.askPass=false",
	"core.sshCommand=false", "core.gitProxy=", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
	"core.alternateRefsCommand=",
	"sequence.editor=false", "credential.helper=", "commit.gpgSign=false", "tag.gpgSign=false", "gpg.program=false",
	"gpg.ssh.program=false",
	"protocol.allow=never", "safe.bareRepository=explicit", "submodule.recurse=false", "diff.external=",
	"interactive.diffFilter=",
	"gc.auto=0", "maintenance.auto=false", "receive.autogc=false", "uploadpack.packObjectsHook=",
	"advice.detachedHead=false",
	"core.worktree=", "fetch.recurseSubmodules=false", "status.submoduleSummary=false", "diff.ignoreSubmodules=dirty",
}

// A Stray is a link in a git folder that leads out of it. Git writes its refs and
// its journal through links, so that whoever may write in there chooses which file
// of the host is written to.
type Stray struct{ Path, Target string }

func (e *Stray) Error() string {
	return fmt.Sprintf("git would write through %q, a link that leads out of the repository, to %q", e.Path, e.Target)
}

// Hints are the words of what to do.
func (e *Stray) Hints() []string {
	return []string{"an agent may have made it: look where it leads, and remove it"}
}

// strays looks where git writes when it makes and removes working trees.
func strays(common string) error {
	for _, name := range []string{"HEAD", "ORIG_HEAD", "packed-refs", "refs", "logs", "worktrees"} {
		err := resolve.Walk(filepath.Join(common, name), func(path string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // git has not needed it yet
			case err != nil:
				return err
			case e.Type()&fs.ModeSymlink == 0:
				return nil
			}
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return stray(common, path, target)
		})
		if err != nil {
			return err
		}
	}
	// The folders of objects are many: what of them is a link shows in the one that they are in.
	list, err := os.ReadDir(filepath.Join(common, "objects"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		path := filepath.Join(common, "objects", e.Name())
		target, err := os.Readlink(path)
		if err == nil {
			err = stray(common, path, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stray refuses a link that leads out of a repository.
func stray(common, path, target string) error {
	// The kernel's own walk: .. behind a link is not what it looks like, and
	// what is not there yet is what git would make.
	if real, err := realpath.Of(path); err != nil || !realpath.Inside(real, common) {
		return &Stray{path, target}
	}
	return nil
}

// Open looks where git would write or wait, and at the names of what the repository
// configures: the drivers that people name themselves have to be switched off one
// by one. The program is one of the system's folders, where no payload could write.
func Open(ctx context.Context, host *resolve.Resolver, at Folders) (*Repo, error) {
	if err := strays(at.Common); err != nil {
		return nil, fmt.Errorf("git in %s: %w", at.Common, err)
	}
	if err := noPipe(at.Common, false, MaxWalk); err != nil {
		return nil, err
	}
	program, err := host.Program("git", resolve.System)
	if err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	h := &Repo{git: program.Path, at: at}
	names, err := h.Run(ctx, "config", "-z", "--includes", "--list", "--name-only")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(names, "\x00") {
		section, rest, _ := strings.Cut(name, ".")
		at := strings.LastIndexByte(rest, '.')
		if at < 0 {
			continue
		}
		if strings.ContainsAny(name, "=\n") {
			return nil, fmt.Errorf("git in %s: its configuration has the name %q, which cannot be switched off", h.at.Common,
				name)
		}
		switch key := rest[at+1:]; {
		case section == "filter" && key == "required":
			h.off = append(h.off, "-c", name+"=false")
		case section == "filter", section == "diff" && (key == "command" || key == "textconv"),
			section == "merge" && key == "driver",
			section == "remote" && (key == "vcs" || key == "uploadpack" || key == "receivepack" || key == "proxy"):
			h.off = append(h.off, "-c", name+"=")
		}
	}
	return h, nil
}

// gitError is what git said when it failed.
type gitError struct {
	args []string
	said string
	err  error
}

func (e *gitError) Error() string {
	said := strings.TrimSpace(e.said)
	if i := strings.LastIndexByte(said, '\n'); i >= 0 {
		said = said[i+1:] // git's last line is the one that matters
	}
	said = strings.TrimPrefix(said, "fatal: ")
	if said == "" {
		said = e.err.Error()
	}
	return "git " + e.args[0] + ": " + said
}

func (e *gitError) Unwrap() error { return e.err }

// Run gives what one call of git printed.
func (h *Repo) Run(ctx context.Context, args ...string) (string, error) {
	words := []string{"--no-pager", "--git-dir=" + h.at.Dir}
	if h.at.Tree != "" {
		words = append(words, "--work-tree="+h.at.Tree)
	}
	for _, setting := range quietGit {
		words = append(words, "-c", setting)
	}
	c := exec.CommandContext(ctx, h.git, append(append(words, h.off...), args...)...)
	c.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1",
	}
	c.Dir = h.at.Common
	if h.at.Tree != "" {
		c.Dir = h.at.Tree
	}
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", &gitError{args, said.String(), err}
	}
	return out.String(), nil
}

// ExitedWith tells a git call that ended with a status, which for questions is
// an answer.
func ExitedWith(err error, status int) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == status
}
