package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/devcontainer"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	var name, dir string
	var dev bool
	c := &cobra.Command{
		Use:   "init [--template NAME] [--devcontainer]",
		Short: "Write a " + config.ProjectFile + " or a devcontainer for this project",
		Long: `Write ` + config.ProjectFile + ` at the top of this project, from a template for what the project
is: what its cloisters may reach, what looks empty inside, and how much of the machine
they get. With --devcontainer, write .devcontainer/cloister/devcontainer.json instead: the
system that its cloisters run in. Nothing that is there is written over.`,
		Example: "  cloister init\n  cloister init --template python\n  cloister init --devcontainer",
		Args:    cli.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if dev {
				return a.initDevcontainer(dir, name)
			}
			return a.initProject(dir, name)
		},
	}
	c.Flags().StringVar(&name, "template", "",
		"one of "+strings.Join(config.TemplateNames(), ", ")+"; found out unless said")
	c.Flags().BoolVar(&dev, "devcontainer", false, "write a devcontainer that is for cloisters alone")
	c.Flags().StringVarP(&dir, "project", "C", ".", "the project, instead of the current folder's")
	_ = c.RegisterFlagCompletionFunc("template",
		cobra.FixedCompletions(config.TemplateNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) initProject(dir, name string) error {
	root, t, why, err := a.templateHere(dir, name)
	if err != nil {
		return err
	}
	file := filepath.Join(root, config.ProjectFile)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return cli.Hinted(fmt.Errorf("init: %s is there already", file), "edit it, or move it away first")
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	_, err = f.Write(t.Text)
	if err = errors.Join(err, f.Close()); err != nil {
		// Half a file would be read as the project's word.
		return errors.Join(fmt.Errorf("init: %w", err), os.Remove(file))
	}
	a.Line("%s", file)
	a.Notice("template %s%s", t.Name, why)
	a.Notice("hint: look at it, then agree: cloister project trust")
	return nil
}

// initDevcontainer writes a devcontainer for cloisters of a project.
func (a *app) initDevcontainer(dir, name string) error {
	root, t, why, err := a.templateHere(dir, name)
	if err != nil {
		return err
	}
	text, err := devcontainer.Template(t.Name)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	file, err := devcontainer.WriteOwn(root, text)
	if errors.Is(err, fs.ErrExist) {
		return cli.Hinted(fmt.Errorf("init: %s is there already", filepath.Join(root, file)),
			"edit it, or move it away first")
	}
	if err != nil {
		return fmt.Errorf("init: write %s: %w", filepath.Join(root, file), err)
	}
	a.Line("%s", filepath.Join(root, file))
	a.Notice("template %s%s", t.Name, why)
	a.Notice("hint: look at it, then agree: cloister devcontainer trust")
	a.Notice("hint: then: cloister start --devcontainer")
	a.Notice("hint: without the flag, by config.yaml: defaults: {devcontainer: auto}")
	return nil
}

// templateHere finds the project and its template.
func (a *app) templateHere(dir, name string) (root string, t config.Template, why string, err error) {
	p, err := a.FindProject(dir)
	if err != nil {
		return "", t, "", err
	}
	t, why, err = templateOf(string(p.Root), name)
	return string(p.Root), t, why, err
}

// templateOf is the template of that name, or the one whose signs a project has.
func templateOf(root, name string) (t config.Template, why string, err error) {
	names := config.TemplateNames()
	if name != "" {
		if !slices.Contains(names, name) {
			hint := "one of: " + strings.Join(names, ", ")
			if near := nearest.Word(name, names); near != "" {
				hint = "did you mean --template " + near + "?"
			}
			return t, "", cli.Usage(hint, "init: --template %q is not known", name)
		}
		t, err = config.LoadTemplate(name)
		return t, "", err
	}
	var found []string
	for _, n := range names {
		if t, err = config.LoadTemplate(n); err != nil {
			return t, "", err
		}
		for _, sign := range t.Signs {
			if info, err := os.Lstat(filepath.Join(root, sign)); err == nil && info.Mode().IsRegular() &&
				!slices.Contains(found, n) {
				found, why = append(found, n), ", by "+sign
			}
		}
	}
	switch len(found) {
	case 1:
		t, err = config.LoadTemplate(found[0])
		return t, why, err
	case 0:
		return t, "", cli.Usage("one of: --template "+strings.Join(names, ", --template "),
			"init: nothing at the top of %s says what the project is", root)
	}
	return t, "", cli.Usage("say which: --template "+strings.Join(found, ", or --template "),
		"init: the project is more than one thing: %s", strings.Join(found, ", "))
}
