package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/devcontainer"
	"cloister/devcontainer/demand"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/image"
	"cloister/session/beside"
	"cloister/session/dressing"
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
		return cli.Usage("",
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
	var driver sandbox.Driver // of services
	if len(l.Beside()) > 0 && f.Image == "" {
		if driver, err = a.driverNamed(cmp.Or(f.Isolation, string(d.Isolation))); err == nil {
			err = beside.Can(driver, !f.NoNetwork)
		}
		if err != nil {
			return err
		}
	}
	i, err := a.devcontainerImage(ctx, l, f.Image, false)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", f.Verb, l.File, err)
	}
	o, err := a.devcontainerOptions(l.project, "", devcontainerFlags{env: f.Env})
	if err != nil {
		return err
	}
	if l.EnvFiles() {
		if o.Hidden, err = a.hiddenOf(l); err != nil {
			return err
		}
	}
	e, err := l.On(o, devcontainer.Image{
		Env: i.Env, Label: i.Devcontainer, Built: l.built() && f.Image == "",
	})
	if err != nil {
		return err
	}
	f.Image, f.dev = cmp.Or(f.Image, i.ID), &dressing.Dressing{Effective: e}
	if driver != nil {
		if f.dev.Beside, err = a.planServices(ctx, f, l, i, dirs, driver); err != nil {
			return fmt.Errorf("%s: %s: %w", f.Verb, l.File, err)
		}
	}
	f.NoNetwork = f.NoNetwork || e.NoNetwork
	if !f.NoNetwork {
		f.Publish = dressing.Forward(ctx, f.Publish, e.Ports, a.Slow)
	}
	refused := len(l.Refused())
	for _, one := range e.Findings {
		if one.Outcome == demand.Refused {
			refused++
		}
	}
	if refused > 0 {
		a.Notice("cloister: %d demands of %s are refused", refused, l.File)
		a.Notice("hint: cloister devcontainer check names them")
	}
	if e.NeedCPUs > float64(runtime.NumCPU()) {
		a.Notice("cloister: %s asks for %v processors, this machine has %d", l.File, e.NeedCPUs, runtime.NumCPU())
	}
	return f.dev.Fit(a.ImageStore(dirs).Root(i), a.Slow)
}

// devcontainerImage is the system of a devcontainer, fetched or built where it is not
// there. A person's --image takes its place; anew builds what is there already.
func (a *app) devcontainerImage(ctx context.Context, l lookedAt, typed string, anew bool) (image.Image, error) {
	store, err := a.Images()
	if err != nil {
		return image.Image{}, err
	}
	if typed != "" {
		named, err := a.Tilde(typed)
		if err != nil {
			return image.Image{}, err
		}
		return store.Get(ctx, named, a.Slow)
	}
	if l.built() {
		tag := l.tag("")
		if i, err := store.Find(tag); err == nil && !anew {
			return i, nil
		}
		return a.buildDevcontainer(ctx, l, store, tag)
	}
	return l.base(ctx, store, a.Slow)
}

// built reports whether a devcontainer's image is made of more than a name.
func (l *lookedAt) built() bool { return l.Builds() || l.HasFeatures() }

// tag is the name of the image that is built of a devcontainer: of this project's, in
// these bytes.
func (l *lookedAt) tag(service string) string {
	sum := sha256.Sum256([]byte(string(l.project.Main) + "\x00" + l.File + "\x00" + service))
	digest := strings.TrimPrefix(l.Digest, "sha256:")
	return "devcontainer/" + hex.EncodeToString(sum[:8]) + ":" + digest[:min(24, len(digest))]
}

// base is the image that a devcontainer names.
func (l *lookedAt) base(ctx context.Context, store *image.Store, say func(string)) (image.Image, error) {
	return store.GetNamed(ctx, l.Base(), say)
}
