package devcontainers

import (
	"archive/tar"
	"context"
	"fmt"
	"path/filepath"

	"cloister/cmd/cloister/images"
	"cloister/devcontainer"
	"cloister/devcontainer/features"
	"cloister/devcontainer/metadata"
	"cloister/policy"
	"cloister/policy/fileverdict"
	"cloister/policyset"
	"cloister/sandbox/docker"
	"cloister/sandbox/image"
	"cloister/session/beside"
	"cloister/workspace/projects"
	"cloister/workspace/protect"
)

// buildImage builds the image of a devcontainer's Dockerfile and features with the
// engine, and keeps it in the store. The steps have the network of a session of their own.
func (a *Commands) buildImage(ctx context.Context, l lookedAt, s *image.Store, tag string) (image.Image, error) {
	d, err := images.Engine(a.App)
	if err != nil {
		return image.Image{}, err
	}
	base, label := "", ""
	if l.Builds() {
		if base, label, err = a.buildDockerfile(ctx, d, s, l, tag); err != nil {
			return image.Image{}, err
		}
	} else {
		i, err := l.base(ctx, s, a.Slow)
		if err != nil {
			return image.Image{}, err
		}
		base, label = i.ID, i.Devcontainer
	}
	if l.HasFeatures() {
		if base, err = a.buildFeatures(ctx, d, s, l, tag, base, label); err != nil {
			return image.Image{}, err
		}
	}
	return images.Keep(ctx, a.App, d, s, base, tag, "the devcontainer "+filepath.Join(string(l.project.Root), l.File))
}

func (a *Commands) buildDockerfile(ctx context.Context, d *docker.Driver, s *image.Store, l lookedAt, tag string) (id,
	label string, err error) {
	hidden, err := a.hiddenOf(l)
	if err != nil {
		return "", "", err
	}
	return a.buildRecipe(ctx, d, s, l.Recipe(hidden, docker.IsBuildsOwn), tag)
}

// buildService builds the image of a service.
func (a *Commands) buildService(
	ctx context.Context, l lookedAt, one beside.Service, s *image.Store, tag string,
) (image.Image, error) {
	hidden, err := a.hiddenOf(l)
	if err != nil {
		return image.Image{}, err
	}
	d, err := images.Engine(a.App)
	if err != nil {
		return image.Image{}, err
	}
	id, _, err := a.buildRecipe(ctx, d, s, l.ServiceRecipe(*one.Build, hidden, docker.IsBuildsOwn), tag)
	if err != nil {
		return image.Image{}, err
	}
	return images.Keep(ctx, a.App, d, s, id, tag,
		"the service "+one.Name+" of "+filepath.Join(string(l.project.Root), l.File))
}

func (a *Commands) buildRecipe(
	ctx context.Context, d *docker.Driver, s *image.Store, r devcontainer.Recipe, tag string,
) (id, label string, err error) {
	id, err = images.Build(ctx, a.App, d, nil, docker.Build{
		File: r.Name, Text: r.Text, Files: r.Files, Arguments: r.Arguments, Target: r.Target, Image: tag, Say: a.Slow,
		Stored: images.StoredIn(s),
	})
	if err != nil {
		return "", "", err
	}
	labels, err := d.Labels(ctx, id)
	return id, labels[metadata.Label], err
}

// buildFeatures installs features on an image.
func (a *Commands) buildFeatures(ctx context.Context, d *docker.Driver, s *image.Store, l lookedAt, tag, base,
	label string) (string, error) {
	agreed := l.Digest
	l, err := a.withFeatures(ctx, flags{project: string(l.project.Root)}, l, false)
	if err != nil {
		return "", err
	}
	if l.Digest != agreed {
		return "", fmt.Errorf("%s changed while its features were fetched", l.File)
	}
	o, err := a.options(l.project, "", flags{})
	if err != nil {
		return "", err
	}
	list, entries, err := l.Features(o)
	if err != nil {
		return "", err
	}
	text, err := features.Definition(base, list)
	if err != nil {
		return "", err
	}
	if label, err = devcontainer.Label(label, entries); err != nil {
		return "", err
	}
	return images.Build(ctx, a.App, d, nil, docker.Build{
		File: "the features of " + l.File, Text: text, Files: func(w *tar.Writer) error { return features.Write(w, list) },
		Labels: map[string]string{metadata.Label: label}, Image: tag, Say: a.Slow, Stored: images.StoredIn(s),
	})
}

// hiddenOf reports what of a project looks empty inside, and so to a build.
func (a *Commands) hiddenOf(l lookedAt) (func(rel string, dir bool) bool, error) {
	words, err := a.settingsOf(l)
	if err != nil {
		return nil, err
	}
	hides, err := protect.Hidden(string(l.project.Root), words.Config.Filesystem.Hide, words.Outer)
	if err != nil {
		return nil, err
	}
	_, sources, err := a.Load()
	if err != nil {
		return nil, err
	}
	list, err := policy.FileStatements(policyset.CedarFiles(sources))
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	forbids := fileverdict.Hides(list, string(l.project.Root))
	return func(rel string, dir bool) bool { return hides(rel, dir) || forbids(rel) }, nil
}

// settingsOf are those by which a devcontainer's project is run.
func (a *Commands) settingsOf(l lookedAt) (projects.Settings, error) {
	cfg, _, err := a.Load()
	if err != nil {
		return projects.Settings{}, err
	}
	return a.UnusedProject(l.project, cfg)
}
