package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/internal/xdg"

	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	return cli.Group("config", "Show and edit the configuration",
		a.configShow(), a.configEdit(), a.configPath(), a.configInit(), a.configImport(), a.configSchema())
}

func (a *app) configShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Print every effective value and where it came from",
		Args:  cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			c, s, err := a.Load()
			if err != nil {
				return err
			}
			// What the guardian would refuse is not in force: one verdict for both.
			if _, err := a.OnDisk(); err != nil {
				return err
			}
			values := sourced(c.Explain())
			if asJSON {
				return a.JSON(map[string]any{"file": s.File, "found": s.Found, "values": values})
			}
			var rows [][]string
			for _, v := range values {
				rows = append(rows, []string{v.Key, v.Value.Value, v.Source})
			}
			a.Table(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// sourcedValue is one effective value with the words of where it came from.
type sourcedValue struct {
	config.Value
	Source string `json:"source"` // default, or FILE:LINE
}

func sourced(values []config.Value) []sourcedValue {
	out := make([]sourcedValue, len(values))
	for i, v := range values {
		out[i] = sourcedValue{v, "default"}
		if v.File != "" {
			out[i].Source = fmt.Sprintf("%s:%d", v.File, v.Line)
		}
	}
	return out
}

func (a *app) configPath() *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print where the configuration is",
		Args:  cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, filepath.Join(d.Config, "config.yaml")) // byte for byte: it is a path
			return nil
		},
	}
}

func (a *app) configSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration",
		Args:  cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			a.Out.Write(config.Schema())
			return nil
		},
	}
}

func (a *app) configInit() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to start from",
		Args:  cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			file, err := writeStarter(d)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, file)
			return nil
		},
	}
}

func (a *app) configEdit() *cobra.Command {
	return &cobra.Command{
		Use:   "edit",
		Short: "Edit the configuration in $EDITOR, and check it",
		Long: `Open config.yaml in $VISUAL, $EDITOR or vi, one to start from where there is none,
and check what was written. What is wrong is told with its line, and is not in
force: a guardian that runs keeps the last good configuration.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			file := filepath.Join(d.Config, "config.yaml")
			if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
				if file, err = writeStarter(d); err != nil {
					return err
				}
			}
			if err := a.Edit(cmd.Context(), "the configuration", file); err != nil {
				return err
			}
			if _, err := a.OnDisk(); err != nil {
				return cli.Hinted(err, "cloister config edit opens it again")
			}
			return nil
		},
	}
}

func writeStarter(d xdg.Dirs) (file string, err error) {
	file = filepath.Join(d.Config, "config.yaml")
	if err := os.MkdirAll(d.Config, 0o700); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", cli.Hinted(fmt.Errorf("write the configuration: %s is there already", file),
			"edit it, or move it away first")
	}
	if err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	_, err = f.Write(config.Starter())
	if err = errors.Join(err, f.Close()); err != nil {
		// Half a file would be read as the person's word.
		return "", errors.Join(fmt.Errorf("write the configuration: %w", err), os.Remove(file))
	}
	return file, nil
}
