// Package git carries commits between a cloister and a remote repository by
// bare repositories that the guardian owns.
//
// The promise: no git that this room starts runs in a repository that a cloister
// writes. What comes from inside is bytes in git's own protocol: objects are
// checked and kept apart until someone has said yes to exactly these commits,
// at these names, of this remote, from what stands there now; then they are
// pushed with the person's credentials, once, and only if the remote still
// stands as it was shown. No hook runs, no submodule is followed, no
// configuration is read but the person's own.
//
// It does not decide, ask or record: the caller of [Depot.Push] brings a function
// that does. Objects of git LFS are no objects of git, and stay behind.
//
// Most readers want [ParseRemote], [Depots.Open], [Depot.Push].
package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloister/host/resolve"
)

// Deadline bounds one fetch or push, without the time of the person.
const Deadline = 30 * time.Minute

// Depots are the guardian's bare repositories: one for each remote of each
// project, so that no project sees what another one fetched.
type Depots struct {
	dir  string
	env  []string
	host resolve.Now

	mu    sync.Mutex
	locks map[string]chan struct{}
}

// NewDepots keeps them below dir. env is the whole environment of git where it
// speaks with a remote: the person's, whose credential helpers it runs.
func NewDepots(dir string, env []string, host resolve.Now) *Depots {
	return &Depots{dir: dir, env: env, host: host, locks: map[string]chan struct{}{}}
}

// Depot is the copy of one remote for one project.
type Depot struct {
	remote Remote
	dir    string
	env    []string // where it speaks with the remote
	path   string   // of the git program
	kept   string   // a setting: the addresses that its host has, see Keep
	lock   chan struct{}
}

// Open gives the depot of a remote, and makes it where there is none.
func (d *Depots) Open(ctx context.Context, project string, r Remote) (*Depot, error) {
	path, env, err := d.program("git")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(project + "\x00" + r.URL))
	dir := filepath.Join(d.dir, hex.EncodeToString(sum[:12])+".git")
	d.mu.Lock()
	lock, known := d.locks[dir]
	if !known {
		lock = make(chan struct{}, 1)
		d.locks[dir] = lock
	}
	d.mu.Unlock()
	depot := &Depot{remote: r, dir: dir, path: path, lock: lock, env: append(env,
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_ALLOW_PROTOCOL="+r.protocols())}
	release, err := depot.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if !known {
		// What a guardian that died left of pushes that no one said yes to.
		if err := depot.sweep(); err != nil {
			return nil, err
		}
	}
	return depot, depot.make(ctx)
}

// program finds a program where no payload could put one, with an environment in
// which it finds others only there.
func (d *Depots) program(name string) (path string, env []string, err error) {
	host, err := d.host()
	if err != nil {
		return "", nil, err
	}
	env = host.Settled(host.Environment(d.env),
		"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR")
	p, err := host.Program(name, resolve.Lookup(env))
	return p.Path, env, err
}

// hold keeps others from changing the depot until release.
func (d *Depot) hold(ctx context.Context) (release func(), err error) {
	select {
	case d.lock <- struct{}{}:
		return func() { <-d.lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const incoming = "incoming-"

func (d *Depot) sweep() error {
	left, err := filepath.Glob(filepath.Join(d.dir, incoming+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

func (d *Depot) make(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(d.dir, "HEAD")); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(d.dir), 0o700); err != nil {
		return fmt.Errorf("make depot: %w", err)
	}
	_, err := d.local(ctx, nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", d.dir)
	return err
}

// quiet are the settings of every git that this package runs.
var quiet = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.attributesFile=/dev/null",
	"core.alternateRefsCommand=",
	"gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "fetch.recurseSubmodules=false",
	"push.recurseSubmodules=no",
	"push.gpgSign=false", "push.followTags=false", "push.pushOption=", "log.showSignature=false", "diff.external=",
	"fetch.writeCommitGraph=false", "fetch.unpackLimit=1", "http.followRedirects=false", "protocol.allow=never",
}

// refresh brings the depot to what stands at the remote now.
func (d *Depot) refresh(ctx context.Context) error {
	release, err := d.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	words := append([]string{"fetch", "--quiet", "--prune", "--force", "--no-tags", "--no-write-fetch-head",
		"--no-recurse-submodules"}, d.remote.sends()...)
	_, err = run(d.command(ctx, d.env, append(words,
		"--", d.remote.URL, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")...))
	if err != nil {
		return fmt.Errorf("fetch from %s: %w", d.remote.URL, err)
	}
	return d.head(ctx)
}

// head lets HEAD of the depot name a branch that exists: a clone checks it out.
func (d *Depot) head(ctx context.Context) error {
	if _, err := d.local(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		return nil
	}
	words := append([]string{"ls-remote", "--symref"}, d.remote.sends()...)
	said, err := run(d.command(ctx, d.env, append(words, "--", d.remote.URL, "HEAD")...))
	if err != nil {
		return fmt.Errorf("look at %s: %w", d.remote.URL, err)
	}
	for line := range strings.Lines(said) {
		if ref, ok := strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(line), "\tHEAD"), "ref: "); ok && plainRef(ref) {
			_, err = d.local(ctx, nil, "symbolic-ref", "HEAD", ref)
			return err
		}
	}
	return nil // an empty repository
}

// Fetch lets git inside take what the remote has.
func (d *Depot) Fetch(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	if err := d.refresh(ctx); err != nil {
		return err
	}
	c := d.command(ctx, plain(nil), "upload-pack", "--strict", "--timeout=600", d.dir)
	var said capped
	c.Stderr, c.Stdout = &said, out
	if err := feed(c, in, nil); err != nil {
		return &Failed{said: said.String(), err: err}
	}
	return nil
}
