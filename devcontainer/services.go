package devcontainer

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/compose"
	"cloister/devcontainer/demand"
	"cloister/devcontainer/jsonc"
	"cloister/internal/nearest"
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
	dir := ""
	for n, v := range list.Items {
		name, err := d.named("dockerComposeFile", v)
		if err != nil {
			return err
		}
		if n == 0 {
			dir = path.Dir(name) // compose's own rule: all paths begin at the first file's folder
		}
		text, err := d.files.read(name)
		if err != nil {
			return d.bad(v, "dockerComposeFile", fmt.Sprintf("%s: %v", name, reason(err)))
		}
		config, err := compose.Parse(name, text)
		if err != nil {
			return err
		}
		in := demand.ComposeInput{Input: d.input(o, demand.File, name, config), Dir: path.Join(o.Project, dir)}
		findings, services, err := demand.Compose(in)
		if err != nil {
			return err
		}
		d.Findings, d.Services = append(d.Findings, findings...), append(d.Services, services...)
		for _, named := range demand.ReferredTo(config) {
			at, err := relative(dir, named)
			if err != nil {
				continue // refused by name
			}
			if err := d.optional(at); err != nil {
				return err
			}
		}
	}
	return d.checkServices()
}

// checkServices refuses names of services that there are none of, and those that wait for
// each other.
func (d *Devcontainer) checkServices() error {
	after := map[string][]string{}
	var names []string
	for _, s := range d.Services {
		after[s.Name] = append(after[s.Name], s.After...)
		names = append(names, s.Name)
	}
	check := func(key string, v jsonc.Value) error {
		if v.Kind != jsonc.String || slices.Contains(names, v.Text) {
			return nil
		}
		e := &jsonc.Error{File: d.File, Line: v.Line, Column: v.Column,
			Msg: fmt.Sprintf("%s: no service %q is in the compose files", key, v.Text)}
		if near := nearest.Word(v.Text, names); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return e
	}
	if v, ok := d.text.Get("service"); ok {
		if err := check("service", v); err != nil {
			return err
		}
	}
	run, _ := d.text.Get("runServices")
	for _, v := range run.Items {
		if err := check("runServices", v); err != nil {
			return err
		}
	}
	for _, s := range d.Services {
		bad := func(msg string) error {
			return &jsonc.Error{File: s.File, Line: s.Line, Column: s.Column, Msg: "services." + s.Name + ": " + msg}
		}
		for _, on := range s.After {
			if !slices.Contains(names, on) {
				return bad(fmt.Sprintf("it depends on %q, which is no service", on))
			}
		}
		if circle := circleOf(after, s.Name); circle != nil {
			return bad("services wait for each other: " + strings.Join(circle, ", "))
		}
	}
	return nil
}

// circleOf is the way by which a service waits for itself; nil where it does not.
func circleOf(after map[string][]string, from string) []string {
	seen := map[string]bool{}
	var walk func(at string, way []string) []string
	walk = func(at string, way []string) []string {
		for _, next := range after[at] {
			if next == from {
				return append(way, next)
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if found := walk(next, append(way, next)); found != nil {
				return found
			}
		}
		return nil
	}
	return walk(from, []string{from})
}
