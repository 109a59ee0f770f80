package devcontainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/demand"
	"cloister/devcontainer/features"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/metadata"
	"cloister/devcontainer/services"
	"cloister/devcontainer/variables"
)

// Options are what a devcontainer is read with.
type Options struct {
	// Project is the project's top, without symbolic links.
	Project string
	// Path is what a person named; empty for the first that is found.
	Path string
	// Home is the person's, which is known inside by the same path.
	Home string
	// LocalEnv is a variable of the host that the devcontainer may have.
	LocalEnv func(name string) (string, bool)
	// Hidden reports what of the project looks empty inside; nil for nothing.
	Hidden func(rel string, dir bool) bool
	// Reserved are variables of the inside that are the cloister's own.
	Reserved []string
	// Sources are where features of registries may be from, and Features are those that
	// were fetched.
	Sources  []string
	Features features.Store
}

// Kind is what a devcontainer is made of.
type Kind string

// The kinds.
const (
	OfImage      Kind = "image"
	OfDockerfile Kind = "dockerfile"
	OfCompose    Kind = "compose"
	OfNothing    Kind = ""
)

// Devcontainer is one as it was read and judged.
type Devcontainer struct {
	// File is its devcontainer.json, from the project's top.
	File string
	Kind Kind
	// Digest names all bytes that it pulls in.
	Digest string
	Pulled []Pulled
	// Findings are the judgement, in the order of the files.
	Findings []demand.Finding
	// Config is the file without what was refused, variables replaced, and All the
	// same with everything, for comparison with another reader.
	Config, All map[string]any
	// WorkspaceFolder is where the reference would show the project.
	WorkspaceFolder string
	// Dockerfile and Context are paths from the project's top.
	Dockerfile, Context string
	ID                  string
	// Services are those of the compose files, with Agent the name of the agent's own.
	Services []services.Service
	Agent    string
	// Unknown are features of sources that no one named, and Absent those of known
	// sources that are not here.
	Unknown []features.Ref
	Absent  []Absent

	lock    features.Lock
	locals  []metadata.Entry // of local features, in the order of the file
	project string
	vars    variables.Set
	text    jsonc.Value
	files   *files
}

// Read finds, reads and judges the devcontainer of a project.
func Read(o Options) (*Devcontainer, error) {
	root, err := os.OpenRoot(o.Project)
	if err != nil {
		return nil, fmt.Errorf("read devcontainer: %w", err)
	}
	defer root.Close()
	name, err := Find(root, o.Path)
	if err != nil {
		return nil, err
	}
	d := &Devcontainer{File: name, project: o.Project, files: &files{root: root, all: map[string]file{}}}
	text, err := d.files.read(name)
	if err != nil {
		return nil, fmt.Errorf("read devcontainer: %w", err)
	}
	if d.text, err = jsonc.Parse(name, text); err != nil {
		return nil, err
	}
	if d.text.Kind != jsonc.Object {
		return nil, &jsonc.Error{File: name, Line: d.text.Line, Column: d.text.Column, Msg: "it must be an object"}
	}
	if err := d.variables(o); err != nil {
		return nil, err
	}
	if err := d.readLock(); err != nil {
		return nil, err
	}
	if err := d.judge(o); err != nil {
		return nil, err
	}
	if err := d.pull(o); err != nil {
		return nil, err
	}
	d.Pulled, d.Digest = d.files.pulled(), d.files.digest()
	d.files.root = nil
	return d, nil
}

// variables knows what the variables of the file stand for.
func (d *Devcontainer) variables(o Options) error {
	id, err := variables.ID(map[string]string{
		"devcontainer.local_folder": o.Project, "devcontainer.config_file": path.Join(o.Project, d.File),
	})
	if err != nil {
		return err
	}
	d.ID = id
	d.vars = variables.Set{LocalEnv: o.LocalEnv, LocalWorkspaceFolder: o.Project, ID: id}
	d.WorkspaceFolder = path.Join("/workspaces", path.Base(o.Project))
	if _, compose := d.text.Get("dockerComposeFile"); compose {
		d.WorkspaceFolder = "/"
	}
	if f, ok := d.text.Get("workspaceFolder"); ok && f.Kind == jsonc.String && f.Text != "" {
		if d.WorkspaceFolder, err = d.vars.Text(f.Text); err != nil {
			return &jsonc.Error{File: d.File, Line: f.Line, Column: f.Column, Msg: "workspaceFolder: " + err.Error()}
		}
	}
	d.vars.ContainerWorkspaceFolder = d.WorkspaceFolder
	return nil
}

func (d *Devcontainer) judge(o Options) error {
	res, err := demand.Judge(d.input(o, demand.File, d.File, d.text))
	if err != nil {
		return err
	}
	d.Findings, d.Config = res.Findings, res.Config
	all, err := d.vars.Replace(d.text.Any())
	if err != nil {
		return fmt.Errorf("read %s: %w", d.File, err)
	}
	d.All, _ = all.(map[string]any)
	return nil
}

// input is a text of the devcontainer's to be judged.
func (d *Devcontainer) input(o Options, source demand.Source, name string, text jsonc.Value) demand.Input {
	given := func(name string) bool { _, ok := o.LocalEnv(name); return ok }
	return demand.Input{
		Source: source, Name: name, Config: text, Vars: d.vars, Home: o.Home, Project: o.Project,
		Reserved: o.Reserved, Given: given, Registered: d.registered(o),
	}
}

// dir is the folder that the file's own paths begin at.
func (d *Devcontainer) dir() string { return path.Dir(d.File) }

// LockName is the name of the lock file beside a devcontainer.json.
func LockName(file string) string {
	if strings.HasPrefix(path.Base(file), ".") {
		return ".devcontainer-lock.json"
	}
	return "devcontainer-lock.json"
}

func (d *Devcontainer) bad(v jsonc.Value, key, msg string) error {
	return &jsonc.Error{File: d.File, Line: v.Line, Column: v.Column, Msg: key + ": " + msg}
}

// reason is an error of the file system without the name that stands before it.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Refused are the findings that a person has to know of.
func (d *Devcontainer) Refused() []demand.Finding {
	return slices.DeleteFunc(slices.Clone(d.Findings), func(f demand.Finding) bool { return f.Outcome != demand.Refused })
}

// Merged is the configuration with what other entries say, those of an image first.
func (d *Devcontainer) Merged(before []metadata.Entry) map[string]any {
	return metadata.Merge(d.Config, append(slices.Clone(before), metadata.OfFile(d.Config)))
}

// Text is the devcontainer.json as it was read.
func (d *Devcontainer) Text() string { return string(d.files.all[d.File].text) }

// HasFeatures reports whether something is installed on top of the image.
func (d *Devcontainer) HasFeatures() bool {
	list, ok := d.Config["features"].(map[string]any)
	return ok && len(list) > 0
}
