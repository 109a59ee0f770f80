package devcontainers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/devcontainer"
	"cloister/devcontainer/demand"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/image"
	"cloister/session/beside"
	"cloister/session/dressing"
	"cloister/session/launch"
)

// Here is the value of --devcontainer without a path.
const Here = "."

// Dress gives a run what the project's devcontainer says, where a flag or the
// configuration's word asks for one: its image, its variables, ports and limits, and what
// runs before the command. Nothing is fetched before the person agreed to these bytes.
func (a *Commands) Dress(ctx context.Context, f *launch.Order, d config.Defaults, dirs xdg.Dirs) (
	*dressing.Dressing, error,
) {
	typed := f.Devcontainer != ""
	word := cmp.Or(f.Devcontainer, d.Devcontainer)
	if word == "" || word == config.DevcontainerNone {
		return nil, nil
	}
	apart := []string{string(config.WorkspaceNone), string(config.WorkspaceGit)}
	if f.Branch != "" || slices.Contains(apart, cmp.Or(f.Workspace, string(d.Workspace))) {
		if !typed {
			return nil, nil // the configuration's word is for the project's own files
		}
		return nil, cli.Usage("",
			"%s: --devcontainer goes with the project's own files: neither with -b nor with --workspace none or git", f.Verb)
	}
	words := []string{}
	if word != Here && word != config.DevcontainerAuto {
		words = append(words, word)
	}
	l, err := a.look(flags{project: cmp.Or(f.Project, "."), env: f.Env}, words)
	if _, none := errors.AsType[*devcontainer.NotFound](err); none && word == config.DevcontainerAuto {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !l.trusted {
		return nil, untrusted(f.Verb, l)
	}
	var driver sandbox.Driver // of services
	if len(l.Beside()) > 0 && f.Image == "" {
		if driver, err = a.Driver(cmp.Or(f.Isolation, string(d.Isolation))); err == nil {
			err = beside.Can(driver, !f.NoNetwork)
		}
		if err != nil {
			return nil, err
		}
	}
	i, err := a.image(ctx, l, f.Image, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", f.Verb, l.File, err)
	}
	o, err := a.options(l.project, "", flags{env: f.Env})
	if err != nil {
		return nil, err
	}
	if l.EnvFiles() {
		if o.Hidden, err = a.hiddenOf(l); err != nil {
			return nil, err
		}
	}
	e, err := l.On(o, devcontainer.Image{
		Env: i.Env, Label: i.Devcontainer, Built: l.built() && f.Image == "",
	})
	if err != nil {
		return nil, err
	}
	f.Image = cmp.Or(f.Image, i.ID)
	dress := &dressing.Dressing{Effective: e}
	if driver != nil {
		if dress.Beside, err = a.planServices(ctx, f, l, i, dirs, driver); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", f.Verb, l.File, err)
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
	return dress, dress.Fit(a.ImageStore(dirs).Root(i), a.Slow)
}

// image is the system of a devcontainer, fetched or built where it is not
// there. A person's --image takes its place; anew builds what is there already.
func (a *Commands) image(ctx context.Context, l lookedAt, typed string, anew bool) (image.Image, error) {
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
		return a.buildImage(ctx, l, store, tag)
	}
	return l.base(ctx, store, a.Slow)
}

// built reports whether a devcontainer's image is made of more than a name.
func (l *lookedAt) built() bool { return l.Builds() || l.HasFeatures() }

// tag is the name of the image that is built of a devcontainer, or of one of its services.
func (l *lookedAt) tag(service string) string { return l.ImageName(string(l.project.Main), service) }

// base is the image that a devcontainer names.
func (l *lookedAt) base(ctx context.Context, store *image.Store, say func(string)) (image.Image, error) {
	return store.GetNamed(ctx, l.Base(), say)
}
