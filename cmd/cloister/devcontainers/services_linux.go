package devcontainers

import (
	"archive/tar"
	"cmp"
	"context"
	"path/filepath"

	"cloister/devcontainer/demand"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/image"
	"cloister/session"
	"cloister/session/beside"
	"cloister/session/launch"
)

// planServices gets the images of a devcontainer's services, and plans them.
func (a *Commands) planServices(
	ctx context.Context, f *launch.Order, l lookedAt, own image.Image, dirs xdg.Dirs, driver sandbox.Driver,
) (*beside.Plan, error) {
	hidden, err := a.hiddenOf(l)
	if err != nil {
		return nil, err
	}
	words, err := a.settingsOf(l)
	if err != nil {
		return nil, err
	}
	named, err := beside.Named(words.Config, f.Allow, f.Deny)
	if err != nil {
		return nil, err
	}
	o := beside.Options{
		Named:   named,
		Agent:   beside.Service{Service: *l.Own(), Image: own},
		Project: string(l.project.Main), Name: cmp.Or(f.Name, filepath.Base(string(l.project.Root))),
		Data: dirs.Data, Logs: filepath.Join(dirs.State, "logs"), Say: a.Slow,
		EnvFile:  func(rel string) ([]byte, error) { return l.EnvFile(rel, hidden) },
		Copy:     func(rel string, w *tar.Writer) error { return l.Copy(rel, hidden, w) },
		Reserved: func(name string) string { return demand.Variable(name, session.AuthorityVariables()) },
	}
	for _, s := range l.Beside() {
		one := beside.Service{Service: s}
		if one.Image, one.Root, err = a.serviceImage(ctx, l, one, driver, dirs); err != nil {
			return nil, &beside.Failure{Service: one, Why: "has no image", Err: err}
		}
		o.List = append(o.List, one)
	}
	return beside.New(o)
}

// serviceImage is the image of a service, fetched or built where it is not there, and given
// to the engine where one runs it.
func (a *Commands) serviceImage(
	ctx context.Context, l lookedAt, s beside.Service, driver sandbox.Driver, dirs xdg.Dirs,
) (i image.Image, root sandbox.Root, err error) {
	store, tag := a.ImageStore(dirs), l.tag(s.Name)
	if s.Build == nil {
		i, err = store.GetNamed(ctx, s.Service.Image, a.Slow)
	} else if i, err = store.Find(tag); err != nil {
		i, err = a.buildService(ctx, l, s, store, tag)
	}
	if err != nil {
		return i, root, err
	}
	root, _, err = a.System(ctx, &launch.Order{Image: i.ID}, dirs, driver)
	return i, root, err
}
