package devcontainer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"cloister/devcontainer/demand"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/metadata"
)

// pull reads what the file names, and all of its folder.
func (d *Devcontainer) pull(o Options) error {
	if err := d.source(); err != nil {
		return err
	}
	if err := d.pullCompose(o); err != nil {
		return err
	}
	if err := d.pullFeatures(o); err != nil {
		return err
	}
	if err := d.pullRegistered(o); err != nil {
		return err
	}
	dir := d.dir()
	if dir == "." || !strings.HasPrefix(dir, ".devcontainer") {
		return nil
	}
	return d.files.folder(dir)
}

func (d *Devcontainer) optional(name string) error {
	if _, err := d.files.read(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read devcontainer: %w", err)
	}
	return nil
}

// source finds out what the devcontainer is made of, and reads the Dockerfile.
func (d *Devcontainer) source() error {
	build, _ := d.text.Get("build")
	dockerfile, byBuild := build.Get("dockerfile")
	context, hasContext := build.Get("context")
	if f, ok := d.text.Get("dockerFile"); ok {
		dockerfile, byBuild = f, true
		if c, ok := d.text.Get("context"); ok {
			context, hasContext = c, true
		}
	}
	_, image := d.text.Get("image")
	_, compose := d.text.Get("dockerComposeFile")
	switch {
	case compose:
		d.Kind = OfCompose
		return nil
	case byBuild:
		d.Kind = OfDockerfile
	case image:
		d.Kind = OfImage
		return nil
	default:
		hint := "image, build.dockerfile or dockerComposeFile"
		return &jsonc.Error{File: d.File, Line: d.text.Line, Column: d.text.Column, Msg: "it names no " + hint,
			Hint: "such as \"image\": \"debian:12\""}
	}
	var err error
	if d.Dockerfile, err = d.named("build.dockerfile", dockerfile); err != nil {
		return err
	}
	d.Context = path.Dir(d.Dockerfile)
	if hasContext {
		if d.Context, err = d.named("build.context", context); err != nil {
			return err
		}
	}
	if _, err := d.files.read(d.Dockerfile); err != nil {
		return d.bad(dockerfile, "build.dockerfile", fmt.Sprintf("%s: %v", d.Dockerfile, reason(err)))
	}
	return d.optional(path.Join(d.Context, ".dockerignore"))
}

// named is a path of the file, from the project's top.
func (d *Devcontainer) named(key string, v jsonc.Value) (string, error) {
	if v.Kind != jsonc.String {
		return "", d.bad(v, key, "it is "+v.Kind.String()+", and must be a string")
	}
	text, err := d.vars.Text(v.Text)
	if err != nil {
		return "", d.bad(v, key, err.Error())
	}
	at, err := relative(d.dir(), text)
	if err != nil {
		return "", d.bad(v, key, err.Error())
	}
	return at, nil
}

// pullFeatures reads the folders of local features, and judges what they ask for.
func (d *Devcontainer) pullFeatures(o Options) error {
	list, ok := d.text.Get("features")
	if !ok {
		return nil
	}
	for _, f := range list.Members {
		if !strings.HasPrefix(f.Name, "./") {
			continue
		}
		at, err := relative(d.dir(), f.Name)
		name := path.Join(at, "devcontainer-feature.json")
		var text []byte
		if err == nil {
			text, err = d.files.read(name)
		}
		if err == nil {
			err = d.files.folder(at)
		}
		if err == nil {
			err = d.local(o, f.Name, name, text)
		}
		if _, placed := errors.AsType[*jsonc.Error](err); placed {
			return err
		}
		if err != nil {
			return &jsonc.Error{File: d.File, Line: f.Line, Column: f.Column, Msg: fmt.Sprintf("feature %s: %v", f.Name,
				reason(err))}
		}
	}
	return nil
}

// local judges the feature of a folder.
func (d *Devcontainer) local(o Options, id, name string, text []byte) error {
	v, err := jsonc.Parse(name, text)
	if err != nil {
		return err
	}
	res, err := demand.Judge(d.input(o, demand.Feature, name, v))
	if err != nil {
		return err
	}
	d.Findings = append(d.Findings, res.Findings...)
	d.locals = append(d.locals, metadata.OfFeature(id, res.Config))
	return nil
}
