// Package cli is what every command has of its invocation: the three streams, the
// environment, how an answer is printed, how an error and its exit status are worded, and
// how the guardian and the project are found.
//
// The promise: stdout carries answers only, and nothing is printed that a terminal obeys.
//
// It has no command of its own, and reads no environment: cmd/cloister hands it in.
//
// Most readers want [App].
package cli

import (
	"bufio"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"cloister/config"
	"cloister/host/resolve"
	"cloister/internal/realpath"
	"cloister/internal/xdg"
	"cloister/policyset"
	"cloister/session/launch"
)

// App is one invocation: the three streams, the environment as it was at the
// start, and the flags that every command has.
type App struct {
	Stdin, Stdout, Stderr *os.File
	Out                   *bufio.Writer // the answer, on stdout
	Env                   Environ
	UID                   int
	Args                  []string // the words typed, short forms written out

	Quiet, Debug bool
	Held         []*os.File // locks that end with this process

	Answers *bufio.Reader // to questions at the terminal
}

// Log is for the operator: silent unless --debug was typed.
func (a *App) Log() *slog.Logger {
	if !a.Debug {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Environ is the environment, read once.
type Environ map[string]string

func NewEnviron(pairs []string) Environ {
	e := make(Environ, len(pairs))
	for _, p := range pairs {
		if key, value, ok := strings.Cut(p, "="); ok {
			e[key] = value
		}
	}
	return e
}

func (e Environ) Get(key string) string { return e[key] }

// Home is the person's home folder: what the environment says or, where it says
// nothing, what the system knows of the user; "" where no one does.
func (a *App) Home() string {
	if h := a.Env.Get("HOME"); h != "" {
		return h
	}
	u, err := user.LookupId(strconv.Itoa(a.UID))
	if err != nil {
		return "" // a user without an entry, as in many containers
	}
	return u.HomeDir
}

// RealHome is the person's home without symbolic links; empty where there is
// none that could hold anything.
func (a *App) RealHome() string {
	home := a.Home()
	if !filepath.IsAbs(home) {
		return ""
	}
	if real, err := realpath.Of(home); err == nil {
		return real
	}
	return home
}

// Dirs are the folders of this instance.
func (a *App) Dirs() (xdg.Dirs, error) {
	d, err := xdg.Resolve(a.Env.Get, a.UID, a.Home())
	if err != nil {
		return d, Hinted(err, "set HOME, or XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_DATA_HOME, to absolute paths")
	}
	return d, nil
}

// Tilde expands a leading ~ to the person's home.
func (a *App) Tilde(path string) (string, error) { return launch.Tilde(path, a.Home()) }

// Load reads the configuration of this instance.
func (a *App) Load() (*config.Config, config.Sources, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, config.Sources{}, err
	}
	c, s, err := config.Load(d.Config)
	a.Log().Debug("read the configuration", "file", s.File, "found", s.Found, "cedar", len(s.Cedar))
	return c, s, err
}

// OnDisk is the policy as the next guardian would load it.
func (a *App) OnDisk() (*policyset.Set, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return policyset.Load(d.Config, a.Home(), resolve.In(d.State, a.UID))
}
