package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/guardian"
	"cloister/internal/termsafe"
	"cloister/internal/xdg"
	"cloister/session/launch"

	"golang.org/x/term"
)

// app is one invocation: the three streams, the environment as it was at the
// start, and the flags that every command has.
type app struct {
	stdin, stdout, stderr *os.File
	out                   *bufio.Writer // the answer, on stdout
	env                   environ
	uid                   int
	args                  []string // the words typed, short forms written out

	quiet, debug bool
	held         []*os.File // locks that end with this process

	answers *bufio.Reader // to questions at the terminal
}

// log is for the operator: silent unless --debug was typed.
func (a *app) log() *slog.Logger {
	if !a.debug {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// main runs one command line and returns the exit status.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.execute(ctx, args)
	if flushErr := a.out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write the answer: %w", flushErr)
	}
	a.complain(err)
	return exitStatus(err)
}

// environ is the environment, read once.
type environ map[string]string

func newEnviron(pairs []string) environ {
	e := make(environ, len(pairs))
	for _, p := range pairs {
		if key, value, ok := strings.Cut(p, "="); ok {
			e[key] = value
		}
	}
	return e
}

func (e environ) get(key string) string { return e[key] }

// home is the person's home folder: what the environment says or, where it says
// nothing, what the system knows of the user; "" where no one does.
func (a *app) home() string {
	if h := a.env.get("HOME"); h != "" {
		return h
	}
	u, err := user.LookupId(strconv.Itoa(a.uid))
	if err != nil {
		return "" // a user without an entry, as in many containers
	}
	return u.HomeDir
}

// dirs are the folders of this instance.
func (a *app) dirs() (xdg.Dirs, error) {
	d, err := xdg.Resolve(a.env.get, a.uid, a.home())
	if err != nil {
		return d, hinted(err, "set HOME, or XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_DATA_HOME, to absolute paths")
	}
	return d, nil
}

// notice tells the person something beside the answer.
func (a *app) notice(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.stderr, a.printable(a.stderr, fmt.Sprintf(format, args...)))
	}
}

func (a *app) notices(list []string) {
	for _, n := range list {
		a.notice("%s", n)
	}
}

// json prints one document.
func (a *app) json(v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	a.out.Write(termsafe.JSON(text.Bytes()))
	return nil
}

// line prints one line of the answer. What cannot be printed as it is, because
// a terminal would obey it, is escaped.
func (a *app) line(format string, args ...any) {
	a.out.WriteString(a.printable(a.stdout, fmt.Sprintf(format, args...)))
	a.out.WriteByte('\n')
}

// table prints rows in columns, two spaces apart.
func (a *app) table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(a.printable(a.stdout, cell))))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			cell = a.printable(a.stdout, cell)
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
			}
		}
		a.line("%s", strings.TrimRight(b.String(), " "))
	}
}

// printable escapes what a terminal would obey or would not show: control
// characters, direction marks, invisible spaces. Tabs and spaces stay.
func (a *app) printable(to *os.File, s string) string {
	cells, ascii := strings.Split(s, "\t"), a.ascii(to)
	for i, cell := range cells {
		if cells[i] = termsafe.Text(cell); ascii {
			cells[i] = termsafe.ASCII(cells[i])
		}
	}
	return strings.Join(cells, "\t")
}

// paint colours a word for a person at a terminal.
func (a *app) paint(word string, code int) string {
	if a.env.get("NO_COLOR") != "" || a.env.get("TERM") == "dumb" || !term.IsTerminal(int(a.stdout.Fd())) {
		return word
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, word)
}

// SGR codes.
const (
	red    = 31
	green  = 32
	yellow = 33
)

// dial reaches a guardian that runs already.
func (a *app) dial(ctx context.Context) (*client.Client, error) {
	d, err := a.dirs()
	if err != nil {
		return nil, err
	}
	a.log().Debug("dial the guardian", "socket", guardian.Socket(d))
	c, err := client.Dial(ctx, guardian.Socket(d))
	if errors.Is(err, client.ErrNotRunning) {
		return nil, hinted(err, "start it: cloister guardian start")
	}
	return c, err
}

// reach is dial for whoever asks about cloisters. Where the guardian is gone and
// cloisters live on, another is started, which takes them over: without one they
// would look as if they were gone too.
func (a *app) reach(ctx context.Context) (*client.Client, error) {
	c, err := a.dial(ctx)
	if err == nil {
		if _, err = c.Status(ctx); err == nil {
			return c, nil
		}
		c.Close() // one that is dying still takes connections
	}
	if !errors.Is(err, client.ErrNotRunning) {
		return nil, err
	}
	d, dirErr := a.dirs()
	if dirErr != nil || !guardian.Survived(d) {
		return nil, err
	}
	a.notice("cloister: the guardian was gone and cloisters live on: another takes them over")
	for range 3 {
		if c, err = a.ensure(ctx); err != nil {
			return nil, err
		}
		if err = settled(ctx, c); err == nil {
			return c, nil
		}
		c.Close()
		if !errors.Is(err, client.ErrNotRunning) {
			break
		}
	}
	return nil, err
}

// settled waits a little until no cloister is shown as starting. Those that live on
// without a guardian look for a new one every 100 ms and are shown so until then.
func settled(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := c.Sessions(ctx, false)
		starting := slices.ContainsFunc(found, func(s api.SessionInfo) bool { return s.State == api.StateStarting })
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil || !starting {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// patience is how long a guardian may take to start.
const patience = 10 * time.Second

// ensure reaches the guardian, and starts one where there is none.
func (a *app) ensure(ctx context.Context) (*client.Client, error) {
	d, err := a.dirs()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	if outdated(d) {
		if err := a.replaceIdle(ctx, d); err != nil {
			return nil, err
		}
	}
	var taken *takenError
	for {
		c, err := client.Ensure(ctx, guardian.Socket(d), func() error {
			a.log().Debug("start a guardian", "log", logFile(d))
			return a.spawnGuardian(d)
		})
		// Another one is on its way in, then it will answer, or on its way
		// out, then there is room for ours.
		if now, ok := errors.AsType[*takenError](err); ok {
			taken = now
		} else if err != nil && taken != nil && ctx.Err() != nil {
			return nil, taken // why it took so long
		} else {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// tilde expands a leading ~ to the person's home.
func (a *app) tilde(path string) (string, error) { return launch.Tilde(path, a.home()) }
