package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/config/imports"
	"cloister/internal/realpath"
	"cloister/internal/shellword"
	"cloister/session/launch"
	"cloister/session/srt"

	"github.com/spf13/cobra"
)

func (a *app) srtCommand() *cobra.Command {
	var settings, command, control string
	c := &cobra.Command{
		Use:   "srt [flags] [CMD [ARG...]]",
		Short: "Run a command as the srt command does, by its settings",
		Long: `Run a command in a cloister as the srt command (sandbox-runtime) is asked to: with the
same flags, settings file and exit statuses, so that scripts that call it go on. It reaches
the destinations that the settings allow, and no others, whatever else is configured; the
environment is passed on, but for what the settings or the vault keep back.

Other than there: of the host it sees the project, the toolchain, and what allowRead and
allowWrite name; /tmp is its own; unix sockets of the host are never shown.`,
		Example: "  cloister srt -s ./srt-settings.json npm test\n  cloister srt -c 'curl -sS https://example.com | head'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if control != "" {
				return srtError(errors.New("--control-fd: settings cannot be changed while the command runs"))
			}
			if command == "" && len(args) == 0 {
				return srtError(errors.New("no command specified: use -c <command> or provide command arguments"))
			}
			if command == "" {
				command = shellword.Line(args...)
			}
			return a.srt(cmd.Context(), settings, command)
		},
	}
	fl := c.Flags()
	fl.SetInterspersed(false)
	fl.StringVarP(&settings, "settings", "s", "", "the settings `FILE` (~/.srt-settings.json unless said)")
	fl.StringVarP(&command, "command", "c", "", "a `COMMAND` line, as sh -c takes it")
	fl.StringVar(&control, "control-fd", "", "")
	fl.BoolVarP(&a.Debug, "verbose", "d", false, "tell more, on stderr")
	if err := fl.MarkHidden("control-fd"); err != nil {
		panic(err) // the flag is two lines above
	}
	return c
}

// srtFailure is an error whose exit status is that of srt for whatever is wrong.
type srtFailure struct{ err error }

func (e *srtFailure) Error() string   { return e.err.Error() }
func (e *srtFailure) Hints() []string { return cli.HintsOf(e.err) }

func srtError(err error) error { return &srtFailure{fmt.Errorf("srt: %w", err)} }

func (a *app) srt(ctx context.Context, file, command string) error {
	s, err := a.srtSettings(file)
	if err != nil {
		return srtError(err)
	}
	f := &runFlags{Order: launch.Order{Verb: "srt"}}
	var cedar string
	f.Allow, f.Deny, cedar = srt.Policy(s)
	f.Cedar = []api.CedarFile{{Name: "srt-settings.cedar", Text: cedar}}
	if err := a.srtFiles(f, s); err != nil {
		return srtError(err)
	}
	cfg, _, err := a.Load()
	if err != nil {
		return srtError(err)
	}
	f.Env = srt.Environment(s, a.Env, cfg.Secrets)
	shell := "/bin/bash"
	if _, err := os.Stat(shell); err != nil {
		shell = "/bin/sh"
	}
	err = a.run(ctx, f, []string{shell, "-c", command})
	if _, ended := errors.AsType[*cli.StatusError](err); err == nil || ended {
		return err
	}
	return &srtFailure{err}
}

// srtSettings reads settings as srt does: the default file may be missing, and nothing is
// allowed then; one that was named, is empty or wrong ends it.
func (a *app) srtSettings(file string) (imports.SRT, error) {
	named := file != ""
	if !named {
		file = filepath.Join(a.Home(), ".srt-settings.json")
	}
	real, err := a.Typed(file)
	if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return imports.SRT{}, err
	}
	text, err := launch.ReadMost(real, config.MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return imports.SRT{}, nil
	case err != nil:
		return imports.SRT{}, err
	case strings.TrimSpace(string(text)) == "":
		return imports.SRT{}, fmt.Errorf("%s is empty", file)
	}
	s, err := imports.ParseSRT(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return s, err
}

// srtFiles makes what settings say of files the view.
func (a *app) srtFiles(f *runFlags, s imports.SRT) error {
	p, err := a.FindProject(".")
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = realpath.Of(here)
	}
	if err != nil {
		return fmt.Errorf("find the working folder: %w", err)
	}
	v, err := srt.View(s, string(p.Root), here, a.Home())
	f.ReadOnly, f.Hide, f.Protect, f.Expose = v.ReadOnly, v.Hide, v.Protect, v.Expose
	return err
}
