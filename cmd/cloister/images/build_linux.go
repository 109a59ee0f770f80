package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/internal/termsafe"
	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/image"
	"cloister/session"
	"cloister/session/launch"

	"golang.org/x/term"
)

// buildPresets are what the steps of a build reach besides what the person's own
// configuration allows.
var buildPresets = []string{"package-registries", "debian"}

// mostOutput bounds what is kept of a build's output to be shown when it fails.
const mostOutput = 4 << 20

// engineBuild builds an image by its definition with the engine, and keeps it in
// the store, where every driver finds it.
func (a door) engineBuild(ctx context.Context, f *buildFlags) error {
	b := docker.Build{File: "the base definition", Text: docker.BaseDefinition(), Image: f.tag, Say: a.Slow}
	if f.show {
		_, err := a.Out.Write(b.Text)
		return err
	}
	if f.file != "" {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return cli.Usage("", "image build: --file: %v", err)
		}
		b.File, b.Text = f.file, text
	}
	s, err := a.Images()
	if err != nil {
		return err
	}
	b.Stored = StoredIn(s)
	d, err := Engine(a.App)
	if err != nil {
		return fmt.Errorf("image build: %w", err)
	}
	id, err := Build(ctx, a.App, d, f.allow, b)
	if err != nil {
		return fmt.Errorf("image build: %w", err)
	}
	i, err := Keep(ctx, a.App, d, s, id, f.tag, "a definition: "+b.File)
	if err != nil {
		return fmt.Errorf("image build: %w", err)
	}
	a.Line("%s", i.ID)
	return nil
}

// StoredIn finds an image of the store that a definition begins with.
func StoredIn(s *image.Store) func(name string) (sandbox.Root, bool) {
	return func(name string) (sandbox.Root, bool) {
		i, err := s.Find(name)
		if err != nil || image.IsLocal(name) {
			return sandbox.Root{}, false // the engine knows it, or says that there is none
		}
		return sandbox.Root{Dir: sandbox.HostPath(s.Root(i)), ID: i.ID}, true
	}
}

// Keep takes an image that the engine built to the store.
func Keep(
	ctx context.Context, a *cli.App, d *docker.Driver, s *image.Store, id, tag, from string,
) (image.Image, error) {
	archive, err := d.Export(ctx, id)
	if err != nil {
		return image.Image{}, err
	}
	i, err := s.Import(ctx, archive, tag, from, a.Slow)
	return i, errors.Join(err, archive.Close())
}

// Build opens a session for the network of the steps, in which they reach what is
// allowed besides what every build may, and has the engine build.
// Their output goes to a terminal as it comes; otherwise it is shown when the
// build has failed, once.
func Build(
	ctx context.Context, app *cli.App, d *docker.Driver, allowed []string, b docker.Build,
) (id string, err error) {
	a := door{app}
	dirs, err := a.Dirs()
	if err != nil {
		return "", err
	}
	allow, err := buildRules(allowed)
	if err != nil {
		return "", err
	}
	b.Variables = session.AuthorityVariables()
	if b.Authorities, err = a.trusted(); err != nil {
		return "", err
	}
	c, err := a.Ensure(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	link, err := c.OpenSession(ctx, api.SessionRequest{
		Name: "image-build-" + strconv.Itoa(os.Getpid()), Project: filepath.Join(dirs.Data,
			"images"), Isolation: d.Name(), Mode: "enforce", Workspace: "none",
		Command: []string{"image", "build", b.File}, Allow: allow, Network: true, ShimPID: os.Getpid(),
	})
	if err != nil {
		return "", err
	}
	end := api.SessionEnd{ExitStatus: cli.StatusFailed}
	defer func() {
		if err != nil {
			end.Failure = err.Error()
		}
		summary, ended := link.End(context.WithoutCancel(ctx), end)
		a.showRefused(summary)
		err = errors.Join(err, ended, link.Close())
	}()
	over := make(chan struct{})
	defer close(over)
	signals := cli.Signals()
	go func() {
		for {
			select {
			case why := <-link.Stopped():
				cancel(errors.New("it was ended: " + why))
			case sig := <-signals:
				if sig != syscall.SIGWINCH {
					cancel(errors.New("interrupted by " + sig.String()))
				}
			case <-over:
				return
			}
		}
	}()
	grant := link.Grant()
	kept := &tail{most: mostOutput}
	b.ID, b.Name, b.Output = grant.ID, grant.Name, kept
	b.Authorities = append(b.Authorities, grant.Authority...)
	if !a.Quiet && term.IsTerminal(int(a.Stderr.Fd())) {
		b.Output = termsafe.New(a.Stderr)
	}
	b.Arm = func(ctx context.Context, g sandbox.Gate) error {
		if err := link.Arm(ctx, client.Listeners{TCP4: g.TCP4, TCP6: g.TCP6, DNS: g.DNS4, DNS6: g.DNS6, DNSTCP: g.DNSTCP4,
			DNSTCP6: g.DNSTCP6, Refusals: g.Refusals}); err != nil {
			return err
		}
		link.Started(grant.ID, 0)
		return nil
	}
	a.Slow("building " + b.Image)
	if id, err = d.Build(ctx, b); err != nil {
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		_, shown := termsafe.New(a.Stderr).Write(kept.Bytes())
		return "", errors.Join(err, shown)
	}
	end.ExitStatus = 0
	return id, nil
}

// trusted are the authorities that this host and the person's configuration trust, as
// a cloister's programs do.
func (a door) trusted() ([]byte, error) {
	cfg, _, err := a.Load()
	if err != nil {
		return nil, err
	}
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return nil, err
	}
	t, err := launch.Authorities(launch.Facts{Config: cfg, Host: host, Env: a.Env, Home: a.Home(), UID: a.UID})
	a.Notices(t.Notices)
	if err != nil {
		return nil, err
	}
	return t.Text()
}

// buildRules are the words of --allow, with what the presets of builds allow.
func buildRules(allowed []string) ([]string, error) {
	out := slices.Clone(allowed)
	for _, name := range buildPresets {
		p, err := config.LoadPreset(name)
		if err != nil {
			return nil, err
		}
		for _, r := range p.Allow {
			out = append(out, r.Domain+":443", r.Domain+":80")
		}
	}
	return out, nil
}

// showRefused shows what the steps asked for and did not get.
func (a door) showRefused(s api.SessionSummary) {
	for _, r := range s.Refusals {
		a.Notice("cloister: refused %s: %s", r.Host, r.Reason)
		a.Notice("hint: cloister image build --allow %s", r.Host)
	}
}

// forget takes an image from the engine, too, that the store no longer has.
// Where there is no engine there is nothing to take.
func (a door) forget(ctx context.Context, i image.Image) error {
	d, err := Engine(a.App)
	if err != nil {
		return nil // DOCKER_HOST names an engine elsewhere, which was given nothing
	}
	var names []string
	for _, n := range i.Names {
		names = append(names, image.Familiar(n))
	}
	_, err = d.Forget(ctx, sandbox.Root{ID: i.ID}, names)
	if _, none := errors.AsType[*sandbox.Unsupported](err); none {
		return nil
	}
	return err
}

// ForgetAll takes all that is ours from the engine: the images that the store
// gave it, and those that were built there.
func ForgetAll(ctx context.Context, a *cli.App) error {
	d, err := Engine(a)
	if err != nil {
		return nil // DOCKER_HOST names an engine elsewhere, which was given nothing
	}
	used, err := d.ForgetBuilt(ctx)
	if _, none := errors.AsType[*sandbox.Unsupported](err); none {
		return nil
	}
	if used > 0 {
		a.Notice("left in the engine: %d images that other containers use", used)
		a.Notice("hint: when these are gone: cloister uninstall --yes")
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	bytes.Buffer
	most int
}

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if over := t.Len() - t.most; over > 0 {
		t.Next(over)
	}
	return n, err
}
