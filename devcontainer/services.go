package devcontainer

import (
	"fmt"
	"path"
	"slices"

	"cloister/devcontainer/compose"
	"cloister/devcontainer/demand"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/services"
)

// pullCompose reads the compose files with what they name in the project, and judges them.
func (d *Devcontainer) pullCompose(o Options) error {
	list, ok := d.text.Get("dockerComposeFile")
	if !ok {
		return nil
	}
	if list.Kind != jsonc.Array {
		list = jsonc.Value{Kind: jsonc.Array, Items: []jsonc.Value{list}}
	}
	whole := jsonc.Value{Kind: jsonc.Object}
	in := services.Input{Variable: o.LocalEnv, Project: o.Project}
	fileOf := map[string]string{}
	for n, v := range list.Items {
		name, err := d.named("dockerComposeFile", v)
		if err != nil {
			return err
		}
		if n == 0 {
			in.Dir = path.Dir(name) // compose's own rule: all paths begin at the first file's folder
		}
		config, err := d.composeFile(o, v, name, in.Dir)
		if err != nil {
			return err
		}
		all, _ := config.Get("services")
		for _, m := range all.Members {
			if fileOf[m.Name] == "" {
				fileOf[m.Name] = name
			}
		}
		whole = services.Join(whole, config)
	}
	in.Config, in.File = whole, func(service string) string { return fileOf[service] }
	var err error
	if d.Services, err = services.Of(in); err != nil {
		return err
	}
	return d.checkServices()
}

// composeFile reads one of the compose files, and gives what is left of it.
func (d *Devcontainer) composeFile(o Options, v jsonc.Value, name, dir string) (jsonc.Value, error) {
	none := jsonc.Value{}
	text, err := d.files.read(name)
	if err != nil {
		return none, d.bad(v, "dockerComposeFile", fmt.Sprintf("%s: %v", name, reason(err)))
	}
	config, err := compose.Parse(name, text)
	if err != nil {
		return none, err
	}
	in := demand.ComposeInput{Input: d.input(o, demand.File, name, config), Dir: path.Join(o.Project, dir)}
	findings, err := demand.Compose(in)
	if err != nil {
		return none, err
	}
	d.Findings = append(d.Findings, findings...)
	for _, named := range demand.ReferredTo(config) {
		at, err := relative(dir, named)
		if err != nil {
			continue // refused by name
		}
		if err := d.optional(at); err != nil {
			return none, err
		}
	}
	var refused []string
	for _, f := range findings {
		if f.Outcome == demand.Refused {
			refused = append(refused, f.Key)
		}
	}
	return services.Left(config, refused), nil
}

// service is the one of a name.
func (d *Devcontainer) service(name string) *services.Service {
	if at := slices.IndexFunc(d.Services, func(s services.Service) bool { return s.Name == name }); at >= 0 {
		return &d.Services[at]
	}
	return nil
}

// Own is the service that the agent's cloister is; nil for a devcontainer without services.
func (d *Devcontainer) Own() *services.Service { return d.service(d.Agent) }

// EnvFile are the variables of a file that a compose file names, from the project's top. One
// that is hidden inside is as empty here as it looks there.
func (d *Devcontainer) EnvFile(rel string, hidden func(rel string, dir bool) bool) ([]byte, error) {
	rel = path.Clean(rel)
	f, ok := d.files.all[rel]
	if !ok {
		return nil, fmt.Errorf("read %s: there is no such file", rel)
	}
	if hiddenWith(rel, hidden) {
		return nil, nil
	}
	return f.text, nil
}

// hiddenWith reports whether a file is hidden, or a folder that it is in.
func hiddenWith(rel string, hidden func(rel string, dir bool) bool) bool {
	if hidden == nil {
		return false
	}
	for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
		if hidden(dir, true) {
			return true
		}
	}
	return hidden(rel, false)
}

// ownEnvironment are the variables of the agent's own service: those of files, then its own.
func (d *Devcontainer) ownEnvironment(hidden func(rel string, dir bool) bool) ([]string, error) {
	own := d.Own()
	if own == nil {
		return nil, nil
	}
	var out []string
	for _, name := range own.EnvFiles {
		text, err := d.EnvFile(name, hidden)
		if err != nil {
			return nil, err
		}
		out = append(out, services.Variables(text)...)
	}
	return append(out, own.Env...), nil
}

// EnvFiles reports whether the agent's own service has variables of files.
func (d *Devcontainer) EnvFiles() bool { own := d.Own(); return own != nil && len(own.EnvFiles) > 0 }

// Builds reports whether the agent's image is made by a recipe.
func (d *Devcontainer) Builds() bool {
	own := d.Own()
	return d.Kind == OfDockerfile || own != nil && own.Build != nil
}

// Base is the name of the image that the agent's begins with, where no recipe makes it.
func (d *Devcontainer) Base() string {
	if own := d.Own(); own != nil {
		return own.Image
	}
	name, _ := d.Config["image"].(string)
	return name
}

// Beside are the services to be started beside the agent, each after those that it waits for:
// all of them but those of profiles, or those that runServices names with what they need.
func (d *Devcontainer) Beside() []services.Service {
	var out []services.Service
	var add func(name string)
	seen := map[string]bool{d.Agent: true}
	add = func(name string) {
		s := d.service(name)
		if s == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, on := range needs(*s) {
			add(on)
		}
		out = append(out, *s)
	}
	run, named := d.text.Get("runServices")
	for _, v := range run.Items {
		add(v.Text)
	}
	if own := d.Own(); own != nil {
		for _, on := range needs(*own) {
			add(on)
		}
	}
	for _, s := range d.Services {
		if !named && len(s.Profiles) == 0 {
			add(s.Name)
		}
	}
	return out
}

// needs are the services without which one is not started.
func needs(s services.Service) []string {
	var out []string
	for _, a := range s.After {
		if !a.Optional {
			out = append(out, a.Service)
		}
	}
	if s.With != "" {
		out = append(out, s.With)
	}
	return out
}
