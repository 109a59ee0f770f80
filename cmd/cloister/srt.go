package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/config/imports"
	"cloister/internal/shellword"
	"cloister/session"
	"cloister/session/launch"

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
	fl.BoolVarP(&a.debug, "verbose", "d", false, "tell more, on stderr")
	if err := fl.MarkHidden("control-fd"); err != nil {
		panic(err) // the flag is two lines above
	}
	return c
}

// srtFailure is an error whose exit status is that of srt for whatever is wrong.
type srtFailure struct{ err error }

func (e *srtFailure) Error() string   { return e.err.Error() }
func (e *srtFailure) Hints() []string { return hintsOf(e.err) }

func srtError(err error) error { return &srtFailure{fmt.Errorf("srt: %w", err)} }

func (a *app) srt(ctx context.Context, file, command string) error {
	s, err := a.srtSettings(file)
	if err != nil {
		return srtError(err)
	}
	f := &runFlags{Order: launch.Order{Verb: "srt"}}
	allow, deny := s.Destinations()
	var never []string // *, or *:PORT: no rule can say it
	f.Allow = allow
	for _, name := range deny {
		if every, port, _ := strings.Cut(name, ":"); every == "*" {
			never = append(never, port)
		} else {
			f.Deny = append(f.Deny, name)
		}
	}
	f.Cedar = []api.CedarFile{{Name: "srt-settings.cedar", Text: onlyThese(f.Allow) + neverThese(never)}}
	if err := a.srtFiles(f, s); err != nil {
		return srtError(err)
	}
	if err := a.srtEnvironment(f, s); err != nil {
		return srtError(err)
	}
	shell := "/bin/bash"
	if _, err := os.Stat(shell); err != nil {
		shell = "/bin/sh"
	}
	err = a.run(ctx, f, []string{shell, "-c", command})
	if _, ended := errors.AsType[*statusError](err); err == nil || ended {
		return err
	}
	return &srtFailure{err}
}

// srtSettings reads settings as srt does: the default file may be missing, and nothing is
// allowed then; one that was named, is empty or wrong ends it.
func (a *app) srtSettings(file string) (imports.SRT, error) {
	named := file != ""
	if !named {
		file = filepath.Join(a.home(), ".srt-settings.json")
	}
	real, err := a.typed(file)
	if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return imports.SRT{}, err
	}
	text, err := os.ReadFile(real)
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

// onlyThese forbids every destination but some, whatever rules allow besides.
func onlyThese(allowed []string) string {
	const forbid = `forbid (principal, action == Action::"NetworkConnect", resource)`
	var terms []string
	for _, name := range allowed {
		host, port, _ := strings.Cut(name, ":")
		term := "resource == Host::" + strconv.Quote(strings.ToLower(host))
		if strings.HasPrefix(host, "*.") {
			term = "resource in Host::" + strconv.Quote(strings.ToLower(host))
		}
		if port != "" {
			term = "(" + term + " && context.port == " + port + ")"
		}
		terms = append(terms, term)
	}
	if len(terms) == 0 {
		return forbid + ";\n"
	}
	return forbid + "\nunless { " + strings.Join(terms, " || ") + " };\n"
}

// neverThese forbids ports of every destination, whatever is allowed; an empty one is for
// all ports.
func neverThese(ports []string) string {
	var b strings.Builder
	for _, port := range ports {
		b.WriteString(`forbid (principal, action == Action::"NetworkConnect", resource)`)
		if port != "" {
			b.WriteString(" when { context.port == " + port + " }")
		}
		b.WriteString(";\n")
	}
	return b.String()
}

// srtEnvironment passes the environment on, but for what a cloister makes itself, what
// speaks for programs of the host, and what the settings or the vault keep back.
func (a *app) srtEnvironment(f *runFlags, s imports.SRT) error {
	cfg, _, err := a.load()
	if err != nil {
		return err
	}
	back := append([]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "SSH_AUTH_SOCK",
		"DBUS_SESSION_BUS_ADDRESS"},
		session.AuthorityVariables()...)
	for _, v := range s.Credentials.EnvVars {
		back = append(back, v.Name)
	}
	for _, secret := range cfg.Secrets {
		back = append(back, secret.Variables()...)
	}
	for _, name := range slices.Sorted(maps.Keys(a.env)) {
		if slices.Contains(back, name) || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "CLOISTER") ||
			strings.HasPrefix(name, "DOCKER_") {
			continue
		}
		f.Env = append(f.Env, name)
	}
	return nil
}
