package devcontainer

import (
	"fmt"
	"slices"
	"strings"

	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/services"
	"cloister/internal/nearest"
)

// checkServices refuses names of services that there are none of, and those that wait for
// each other.
func (d *Devcontainer) checkServices() error {
	after := map[string][]string{}
	var names []string
	for _, s := range d.Services {
		for _, a := range s.After {
			after[s.Name] = append(after[s.Name], a.Service)
		}
		names = append(names, s.Name)
	}
	check := func(key string, v jsonc.Value) error {
		if v.Kind == jsonc.String && slices.Contains(names, v.Text) {
			return nil
		}
		msg := fmt.Sprintf("%s: no service %q is in the compose files", key, v.Text)
		if v.Kind != jsonc.String {
			msg = key + " must name one of the services: " + strings.Join(names, ", ")
		}
		e := &jsonc.Error{File: d.File, Line: max(1, v.Line), Column: max(1, v.Column), Msg: msg}
		if near := nearest.Word(v.Text, names); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return e
	}
	own, _ := d.text.Get("service")
	if err := check("service", own); err != nil {
		return err
	}
	d.Agent = own.Text
	run, _ := d.text.Get("runServices")
	for _, v := range run.Items {
		if err := check("runServices", v); err != nil {
			return err
		}
	}
	for _, s := range d.Services {
		if err := checkService(s, names, after); err != nil {
			return err
		}
	}
	return nil
}

// mostServices bounds how many cloisters one devcontainer is.
const mostServices = 24

// checkService refuses what of one service cannot be.
func checkService(s services.Service, names []string, after map[string][]string) error {
	bad := func(format string, args ...any) error {
		msg := "services." + s.Name + ": " + fmt.Sprintf(format, args...)
		return &jsonc.Error{File: s.File, Line: s.Line, Column: s.Column, Msg: msg}
	}
	if len(names) > mostServices {
		return bad("more than %d services", mostServices)
	}
	for _, on := range s.After {
		if !slices.Contains(names, on.Service) {
			return bad("it depends on %q, which is no service", on.Service)
		}
		if !slices.Contains([]string{services.Started, services.Healthy, services.Completed}, on.Condition) {
			return bad("it waits for %s until %q, which is no condition", on.Service, on.Condition)
		}
	}
	if s.With != "" && !slices.Contains(names, s.With) {
		return bad("its network is that of %q, which is no service", s.With)
	}
	if circle := circleOf(after, s.Name); circle != nil {
		return bad("services wait for each other: %s", strings.Join(circle, ", "))
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
