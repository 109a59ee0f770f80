package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/config/imports"
	"cloister/internal/durable"

	"github.com/spf13/cobra"
)

func (a *app) configImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import PATH",
		Short: "Write the configuration from another sandbox's settings",
		Long: `Read what another sandbox keeps as its settings, and write config.yaml from it: the
original Cloister's folder, settings of srt, settings of Claude Code, a Cedar file of
Leash, or a file with the commands that set policies of Docker's sandboxes (sbx). Of each
key it says whether it was taken, changed, or has no equal. Where there is a config.yaml,
it prints what it would write, and writes nothing.`,
		Example: "  cloister config import ~/.srt-settings.json\n" +
			"  cloister config import ~/.claude/settings.json",
		Args: cli.Args(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.importConfig(args[0]) },
	}
}

func (a *app) importConfig(path string) error {
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	from, err := a.Typed(path)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	read, err := imports.Read(from)
	if err != nil {
		return err
	}
	file := filepath.Join(d.Config, "config.yaml")
	if _, err := config.Parse(file, []byte(read.Text)); err != nil {
		return fmt.Errorf("import %s: what it says does not load here: %w", path, err)
	}
	for _, t := range read.Notes {
		a.Notice("%-8s  %s: %s", t.How, t.Key, t.Why)
	}
	switch _, err := os.Lstat(file); {
	case err == nil:
		a.Out.WriteString(read.Text)
		return cli.Hinted(fmt.Errorf("import %s: %s is there already, and stays as it is", path, file),
			"take over what you want of what was printed: cloister config edit")
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("import: %w", err)
	}
	if err := os.MkdirAll(d.Config, 0o700); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if err := durable.WriteFile(file, []byte(read.Text), 0o600); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	a.Line("%s", file)
	return nil
}
