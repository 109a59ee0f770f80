package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/config"
	"cloister/devcontainer"
	"cloister/devcontainer/demand"
	"cloister/devcontainer/lifecycle"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/image"
	"cloister/session"
	"cloister/workspace"
	"cloister/workspace/projects"
)

// here is the value of --devcontainer without a path.
const here = "."

// asDevcontainer gives a run what the project's devcontainer says, where a flag or the
// configuration's word asks for one: its image, its variables, ports and limits, and what
// runs before the command. Nothing is fetched before the person agreed to these bytes.
func (a *app) asDevcontainer(ctx context.Context, f *runFlags, d config.Defaults, dirs xdg.Dirs) error {
	typed := f.Devcontainer != ""
	word := cmp.Or(f.Devcontainer, d.Devcontainer)
	if word == "" || word == config.DevcontainerNone {
		return nil
	}
	if f.Branch != "" || cmp.Or(f.Workspace, string(d.Workspace)) == string(config.WorkspaceNone) {
		if !typed {
			return nil // the configuration's word is for the project's own files
		}
		return wrongWords("",
			"%s: --devcontainer goes with the project's own files: neither with -b nor with --workspace none", f.Verb)
	}
	words := []string{}
	if word != here && word != config.DevcontainerAuto {
		words = append(words, word)
	}
	l, err := a.devcontainerOf(devcontainerFlags{project: cmp.Or(f.Project, "."), env: f.Env}, words)
	if _, none := errors.AsType[*devcontainer.NotFound](err); none && word == config.DevcontainerAuto {
		return nil
	}
	if err != nil {
		return err
	}
	if !l.trusted {
		return untrusted(f.Verb, l)
	}
	i, err := a.devcontainerImage(ctx, l, f.Image, false)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", f.Verb, l.File, err)
	}
	o, err := a.devcontainerOptions(l.project, "", devcontainerFlags{env: f.Env})
	if err != nil {
		return err
	}
	e, err := l.On(o, devcontainer.Image{
		Env: i.Env, Label: i.Devcontainer, Built: l.built() && f.Image == "",
	})
	if err != nil {
		return err
	}
	f.Image, f.dev = cmp.Or(f.Image, i.ID), &e
	f.NoNetwork = f.NoNetwork || e.NoNetwork
	if !f.NoNetwork {
		a.forward(ctx, f, e.Ports)
	}
	refused := len(l.Refused())
	for _, one := range e.Findings {
		if one.Outcome == demand.Refused {
			refused++
		}
	}
	if refused > 0 {
		a.notice("cloister: %d demands of %s are refused", refused, l.File)
		a.notice("hint: cloister devcontainer check names them")
	}
	if e.NeedCPUs > float64(runtime.NumCPU()) {
		a.notice("cloister: %s asks for %v processors, this machine has %d", l.File, e.NeedCPUs, runtime.NumCPU())
	}
	return a.devcontainerPlaces(f, &e, imageStore(dirs).Root(i))
}

// devcontainerPlaces leaves out the paths at which the image has a folder: a link
// cannot lie there.
func (a *app) devcontainerPlaces(f *runFlags, e *devcontainer.Effective, root string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("%s: open the image: %w", f.Verb, err)
	}
	defer r.Close()
	taken := func(at string) bool {
		fi, err := r.Stat(at[1:])
		return err == nil && fi.IsDir()
	}
	e.Folders = slices.DeleteFunc(e.Folders, func(at string) bool {
		if taken(at) {
			a.notice("cloister: the image has a folder at %s: the project is at its own path", at)
			return true
		}
		return false
	})
	e.Volumes = slices.DeleteFunc(e.Volumes, func(v devcontainer.Volume) bool {
		if taken(v.Target) {
			a.notice("cloister: the image has a folder at %s: the volume %s is not there", v.Target, v.Name)
			return true
		}
		return false
	})
	return nil
}

// forward publishes the ports that are free on this machine.
func (a *app) forward(ctx context.Context, f *runFlags, ports []uint16) {
	for _, p := range ports {
		number := strconv.Itoa(int(p))
		if slices.ContainsFunc(f.Publish, func(typed string) bool {
			known, err := session.ParsePublished(typed)
			return err == nil && (known.Port == p || known.HostPort == p)
		}) {
			continue // the person's word
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", number))
		if err != nil {
			a.notice("cloister: port %s of the devcontainer is taken on this machine, and not forwarded", number)
			continue
		}
		_ = l.Close() // it was only looked for
		f.Publish = append(f.Publish, number)
	}
}

// devcontainerImage is the system of a devcontainer, fetched or built where it is not
// there. A person's --image takes its place; anew builds what is there already.
func (a *app) devcontainerImage(ctx context.Context, l lookedAt, typed string, anew bool) (image.Image, error) {
	store, err := a.images()
	if err != nil {
		return image.Image{}, err
	}
	if typed != "" {
		named, err := a.tilde(typed)
		if err != nil {
			return image.Image{}, err
		}
		return store.Get(ctx, named, a.slow)
	}
	if l.Kind == devcontainer.OfCompose {
		return image.Image{}, notStarted(l)
	}
	if l.built() {
		tag := l.tag()
		if i, err := store.Find(tag); err == nil && !anew {
			return i, nil
		}
		return a.buildDevcontainer(ctx, l, store, tag)
	}
	return l.base(ctx, store, a.slow)
}

// notStarted is the error for services of compose files, by the place of the first.
func notStarted(l lookedAt) error {
	err := errors.New("the services of a compose file are not started")
	if len(l.Services) > 0 {
		s := l.Services[0]
		err = fmt.Errorf("%s:%d: the service %s: %w", s.File, s.Line, s.Name, err)
	}
	return hinted(err, "what of it would be refused: cloister devcontainer check",
		"the agent alone, without them: --image IMAGE")
}

// built reports whether a devcontainer's image is made of more than a name.
func (l *lookedAt) built() bool { return l.Kind == devcontainer.OfDockerfile || l.HasFeatures() }

// tag is the name of the image that is built of a devcontainer: of this project's, in
// these bytes.
func (l *lookedAt) tag() string {
	sum := sha256.Sum256([]byte(string(l.project.Main) + "\x00" + l.File))
	digest := strings.TrimPrefix(l.Digest, "sha256:")
	return "devcontainer/" + hex.EncodeToString(sum[:8]) + ":" + digest[:min(24, len(digest))]
}

// base is the image that a devcontainer names.
func (l *lookedAt) base(ctx context.Context, store *image.Store, say func(string)) (image.Image, error) {
	name, _ := l.Config["image"].(string)
	if err := image.Check(name); err != nil {
		return image.Image{}, err
	}
	if image.IsLocal(name) {
		return image.Image{}, fmt.Errorf("image %q is a path of this machine, not an image's name", name)
	}
	return store.Get(ctx, name, say)
}

// narrowed is a configuration with what customizations.cloister takes away, as of a
// repository's file that no one agreed to.
func (f *runFlags) narrowed(w *projects.Settings, p workspace.Project) error {
	if f.dev == nil || f.dev.Narrowed == nil {
		return nil
	}
	name := filepath.Join(string(p.Root), "devcontainer.json#customizations.cloister")
	own, err := config.ParseProject(name, f.dev.Narrowed)
	if err != nil {
		return err
	}
	w.Config = own.Narrowed().Over(w.Config, true)
	w.Files = append(w.Files, api.ProjectFile{Name: name, Text: string(f.dev.Narrowed), Narrowed: true})
	return nil
}

// narrowLimits holds a run to the limits of its devcontainer, where they are less.
func (f *runFlags) narrowLimits(l sandbox.Limits) sandbox.Limits {
	if f.dev == nil {
		return l
	}
	return sandbox.Limits{
		Memory: least(l.Memory, int64(f.dev.Memory)), CPUs: least(l.CPUs, f.dev.CPUs), Pids: least(l.Pids, f.dev.Pids),
	}
}

// least is the smaller of two limits, of which 0 is none.
func least[T int64 | float64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// placed adds to a view where the project is found besides its own path.
func (f *runFlags) placed(o *workspace.Options) {
	if f.dev != nil {
		o.Folders = append(o.Folders, f.dev.Folders...)
	}
}

// dressed gives a session the devcontainer's part: PATH, volumes, and the commands
// before the person's.
func (f *runFlags) dressed(s *session.Shim) {
	if f.dev == nil {
		return
	}
	if len(f.dev.Path) > 0 {
		s.Path = f.dev.Path
	}
	s.Argv = lifecycle.Script(f.dev.Lifecycle, s.Argv)
	for _, v := range f.dev.Volumes {
		s.Volumes = append(s.Volumes, session.Volume{At: sandbox.GuestPath(v.Target), Dir: path.Join(lifecycle.VolumesDir,
			v.Name)})
	}
}
