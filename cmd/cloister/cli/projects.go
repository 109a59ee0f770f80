package cli

import (
	"fmt"
	"strings"

	"cloister/api"
	"cloister/config"
	"cloister/host/taint"
	"cloister/internal/nearest"
	"cloister/internal/xdg"
	"cloister/workspace"
	"cloister/workspace/projects"
	"cloister/workspace/protect"

	"github.com/spf13/cobra"
)

// Projects reads every known project. One that cannot be read is reported, and the
// others are there.
func (a *App) Projects(d xdg.Dirs) ([]projects.Known, error) {
	return projects.ReadAll(d, func(_ string, err error) { a.Notice("cloister: %v; the others are there", err) })
}

// OfProject is a configuration with what the person and the repository say of one
// project over it, and what the projects around it take away. What the repository asks
// for beyond the person's word waits for cloister project trust.
func (a *App) OfProject(d xdg.Dirs, places *taint.Register, p workspace.Project,
	cfg *config.Config) (projects.Settings, error) {
	k, err := projects.Register(d, string(p.Main), a.Complain)
	if err != nil {
		return projects.Settings{}, err
	}
	return k.Over(d, places, p, cfg)
}

// UnusedProject is the configuration of a project for whoever only looks: that is no use
// of it.
func (a *App) UnusedProject(p workspace.Project, cfg *config.Config) (projects.Settings, error) {
	d, host, err := a.DirsAndResolver()
	if err != nil {
		return projects.Settings{}, err
	}
	k, err := projects.Read(d, string(p.Main))
	if err != nil {
		k = projects.Unused(string(p.Main))
	}
	return k.Over(d, host.Places(), p, cfg)
}

// TellNarrowed says that a repository's proposal waits.
func (a *App) TellNarrowed() {
	a.Notice("cloister: %s asks for more than you gave; until you agree, only what it takes away applies",
		config.ProjectFile)
	a.Notice("hint: cloister project trust")
}

// HereWords are the project of the current folder and its files, for whoever
// only asks; none where there is no project.
func (a *App) HereWords() (string, []api.ProjectFile, error) {
	p, err := a.FindProject(".")
	if err != nil {
		return "", nil, nil
	}
	return a.OwnWords(p)
}

// OwnWords are a project's root and its files.
func (a *App) OwnWords(p workspace.Project) (string, []api.ProjectFile, error) {
	d, err := a.Dirs()
	if err != nil {
		return "", nil, err
	}
	k, err := projects.Read(d, string(p.Main))
	if err != nil {
		k = projects.Unused(string(p.Main))
	}
	cfg, _, err := a.Load()
	if err != nil {
		cfg = config.Default() // whoever answers says what is wrong with the file
	}
	host, err := a.Resolver(d)
	if err != nil {
		return "", nil, err
	}
	files, err := k.Texts(d, host.Places(), p, cfg)
	if err != nil {
		return "", nil, err
	}
	return k.Root, files, nil
}

// NamedProject finds a known project by its name or folder; without one, that of the
// current folder.
func (a *App) NamedProject(d xdg.Dirs, args []string) (projects.Known, workspace.Project, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	all, err := a.Projects(d)
	if err != nil {
		return projects.Known{}, workspace.Project{}, err
	}
	var names []string
	for _, k := range all {
		names = append(names, k.Name)
		if k.Name == args[0] {
			p, err := a.FindProject(k.Root)
			if err != nil {
				// A folder that was moved or deleted is still known.
				p = workspace.Project{}
			}
			return k, p, nil
		}
	}
	p, err := a.FindProject(args[0])
	if err != nil {
		hint := "cloister project list tells the names"
		if near := nearest.Word(args[0], names); near != "" {
			hint = "did you mean " + near + "?"
		}
		if !strings.ContainsRune(args[0], '/') && args[0] != "." {
			err = fmt.Errorf("there is no project %q, and no folder of that name here", args[0])
		}
		return projects.Known{}, p, Hinted(err, hint)
	}
	if k, err := projects.Read(d, string(p.Main)); err == nil {
		return k, p, nil
	}
	return projects.Unused(string(p.Main)), p, nil
}

// SayOuter names the projects around, whose rules hold too.
func (a *App) SayOuter(outer []protect.Outer) {
	for i, o := range outer {
		if i == 0 || outer[i-1].Root != o.Root {
			a.Notice("cloister: the rules of the project %s hold here too: this one lies inside it", o.Root)
		}
	}
}

// CompleteProjects offers the names of projects.
func (a *App) CompleteProjects(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if d, err := a.Dirs(); err == nil && len(args) == 0 {
		all, _ := a.Projects(d) // Tab is no place for errors
		for _, k := range all {
			names = append(names, k.Name+"\t"+k.Root)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
