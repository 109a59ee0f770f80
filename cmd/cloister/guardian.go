package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/audit"
	"cloister/guardian"
	"cloister/host/resolve"
	"cloister/internal/xdg"

	"github.com/spf13/cobra"
)

func (a *app) guardianCommand() *cobra.Command {
	return group("guardian", "Start, stop, ask and watch the daemon that every cloister depends on",
		a.guardianStart(), a.guardianStop(), a.guardianStatus(), a.guardianReload(), a.guardianOpen(), a.guardianAPI(),
		a.guardianDaemon(), a.guardianProbe(), guardianKeep())
}

// locksDir is where the sessions of one project find each other.
func locksDir(d xdg.Dirs) string { return filepath.Join(d.Runtime, "locks") }

// logFile is where the guardian of this instance writes for the operator.
func logFile(d xdg.Dirs) string { return filepath.Join(d.State, "logs", "guardian.log") }

// readyFD is the descriptor on which a spawned guardian says one guardianWord.
const readyFD = 3

// guardianWord tells whoever spawned a guardian that it answers, or why it did
// not start.
type guardianWord struct {
	Ready  bool        `json:"ready,omitempty"`
	Taken  bool        `json:"taken,omitempty"` // another guardian has the instance
	Errors []toldError `json:"errors,omitempty"`
}

// toldError is one error of another process, with its hints. It is not an error
// of the words that this one was called with, whatever it was there.
type toldError struct {
	Text  string   `json:"text"`
	Words []string `json:"hints,omitempty"`
}

func (e *toldError) Error() string   { return e.Text }
func (e *toldError) Hints() []string { return e.Words }

// takenError says that another guardian has the instance: it is on its way in,
// or out.
type takenError struct{ err error }

func (e *takenError) Error() string { return e.err.Error() }
func (e *takenError) Unwrap() error { return e.err }

// wordFor says an error for another process.
func wordFor(err error) guardianWord {
	w := guardianWord{Ready: err == nil, Taken: errors.Is(err, guardian.ErrAlreadyRunning) ||
		errors.Is(err, audit.ErrInUse)}
	if err != nil {
		for _, e := range apart(err) {
			hints := hintsOf(e)
			if len(hints) == 0 {
				hints = folderHints(e)
			}
			w.Errors = append(w.Errors, toldError{e.Error(), hints})
		}
	}
	return w
}

// err is what the word says, as an error of this process.
func (w guardianWord) err() error {
	var errs []error
	for i := range w.Errors {
		errs = append(errs, &w.Errors[i])
	}
	err := errors.Join(errs...)
	if w.Taken && err != nil {
		err = &takenError{err}
	}
	return err
}

// spawnGuardian starts a guardian that outlives this process, and returns when
// it answers or has said why not.
func (a *app) spawnGuardian(d xdg.Dirs) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the guardian: find this program: %w", err)
	}
	host, err := a.host(d)
	if err != nil {
		return err
	}
	log, err := openLog(logFile(d))
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	defer null.Close()
	ready, told, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	defer ready.Close()
	args := []string{"cloister", "guardian", "daemon", "--ready-fd", strconv.Itoa(readyFD)}
	if a.debug {
		args = append(args, "--debug")
	}
	p, err := os.StartProcess(exe, args, &os.ProcAttr{
		Dir:   "/", // hold no folder that somebody may want to unmount
		Env:   a.daemonEnvironment(host),
		Files: []*os.File{null, log, log, told},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	told.Close()
	if err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	// The guardian is no one's child for long: this process may live for days
	// as a shim, and must not keep it as a zombie.
	go func() { _, _ = p.Wait() }()
	if err := ready.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	var word guardianWord
	err = json.NewDecoder(io.LimitReader(ready, 64<<10)).Decode(&word)
	switch {
	case word.Ready:
		return nil
	case len(word.Errors) > 0:
		return word.err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return hinted(fmt.Errorf("it does not answer within %s", patience), "its log: "+logFile(d))
	}
	return hinted(errors.New("it ended at once"), "its log: "+logFile(d))
}

// daemonEnvironment is what a guardian needs. The person's tokens are not
// among it, so they are not in its memory either, and nothing names a file of authorities
// that a payload could write.
func (a *app) daemonEnvironment(host *resolve.Resolver) []string {
	var out []string
	for _, key := range []string{
		"HOME", "PATH", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK",
	} {
		if v, ok := a.env[key]; ok {
			out = append(out, key+"="+v)
		}
	}
	return host.Settled(out, "SSL_CERT_FILE", "SSL_CERT_DIR")
}

// maxLog is where a log is put aside, at a guardian's start.
const maxLog = 8 << 20

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open the guardian's log: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("put the guardian's log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the guardian's log: %w", err)
	}
	return f, nil
}

func (a *app) guardianDaemon() *cobra.Command {
	var fd int
	c := &cobra.Command{
		Use:    "daemon",
		Short:  "Be the guardian, in the foreground",
		Hidden: true,
		Args:   counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tell := func(error) {}
			if fd > 2 {
				f := os.NewFile(uintptr(fd), "ready")
				// Once: the reader is gone after the first word. Whether it
				// is still there does not matter to the guardian.
				tell = func(err error) {
					_ = json.NewEncoder(f).Encode(wordFor(err))
					_ = f.Close()
					tell = func(error) {}
				}
			}
			err := a.runGuardian(cmd.Context(), func() { tell(nil) })
			if err != nil {
				tell(err)
			}
			return err
		},
	}
	c.Flags().IntVar(&fd, "ready-fd", -1, "say on this descriptor when it answers")
	return c
}

// guardianProbe is the process that finds out for the guardian what doctor prints.
func (a *app) guardianProbe() *cobra.Command {
	return &cobra.Command{
		Use: "probe", Hidden: true, Args: counted(0, 0), Short: "Find out what this machine can guarantee, for the guardian",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.json(a.diagnose(cmd.Context())) },
	}
}

func (a *app) runGuardian(ctx context.Context, ready func()) error {
	d, err := a.dirs()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	level := slog.LevelInfo
	if a.debug {
		level = slog.LevelDebug
	}
	helper, hostEnv, err := a.helper()
	if err != nil {
		return err
	}
	host, err := a.host(d)
	if err != nil {
		return err
	}
	if _, err := x509.SystemCertPool(); err != nil { // read once: before a session writes anything
		return fmt.Errorf("read the host's certificate authorities: %w", err)
	}
	shim := a.self(helper[0], d)
	shim.Env, shim.Dir = a.daemonEnvironment(host), "/"
	forget := func() error { return nil }
	err = guardian.Run(ctx, guardian.Options{
		Helper:  helper,
		HostEnv: hostEnv,
		Shim:    shim,
		Probe:   []string{helper[0], "guardian", "probe"},
		Door:    func(id string) string { return doorPath(d, id) },
		Keyring: a.keyring(), SecretEnv: a.secretEnv(hostEnv),
		GitEnv: a.gitEnv(hostEnv),
		Bus:    a.env.get("DBUS_SESSION_BUS_ADDRESS"), AgentSocket: a.env.get("SSH_AUTH_SOCK"),
		Dirs:    d,
		Home:    a.home(),
		Version: version(),
		Logger:  slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})),
		Sweep:   sweep(d),
		Ready: func() {
			var nameErr error
			if forget, nameErr = nameProgram(d); nameErr != nil {
				forget = func() error { return nil }
				fmt.Fprintln(a.stderr, a.printable(a.stderr, nameErr.Error()))
			}
			ready()
		},
	})
	return errors.Join(err, forget())
}

func (a *app) guardianAPI() *cobra.Command {
	return &cobra.Command{
		Use:   "api",
		Short: "Print the OpenAPI document of what can be asked of the guardian",
		Long: `Print the OpenAPI document (3.1, JSON) of what can be asked of the guardian on
its unix socket. "cloister guardian status --json" names the socket.`,
		Example: "  curl --unix-socket \"$(cloister guardian status --json | jq -r .socket)\" http://guardian/v1/sessions",
		Args:    counted(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.json(guardian.OpenAPI(version())) },
	}
}

func (a *app) guardianStart() *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the guardian, if none runs",
		Args:  counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.guardianRuns(cmd.Context())
			if errors.Is(err, client.ErrNotRunning) { // it was on its way out
				s, err = a.guardianRuns(cmd.Context())
			}
			if err != nil {
				return err
			}
			a.line("the guardian runs, pid %d", s.PID)
			return nil
		},
	}
}

// guardianRuns starts a guardian where there is none, and asks it.
func (a *app) guardianRuns(ctx context.Context) (api.Status, error) {
	c, err := a.ensure(ctx)
	if err != nil {
		return api.Status{}, err
	}
	defer c.Close()
	return c.Status(ctx)
}

func (a *app) guardianStop() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the guardian; sessions live on without a network",
		Args:  counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			c, err := a.dial(ctx)
			if errors.Is(err, client.ErrNotRunning) {
				a.notice("the guardian is not running")
				return nil
			}
			if err != nil {
				return err
			}
			defer c.Close()
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if s.Sessions > 0 {
				a.notice("%s without a network until a guardian runs again: cloister guardian start", sessions(s.Sessions))
			}
			return endGuardian(ctx, c, s, "cloister guardian stop")
		},
	}
}

// endGuardian asks a guardian to stop and waits until its process has ended: until
// then it holds the instance, and may still write its last record.
func endGuardian(ctx context.Context, c *client.Client, s api.Status, why string) error {
	ended, err := watchEnd(s.PID)
	if err == nil {
		err = c.Stop(ctx, why)
	}
	if err == nil {
		err = ended(ctx)
	}
	if err != nil {
		return fmt.Errorf("stop the guardian: %w", err)
	}
	return nil
}

func sessions(n int) string {
	if n == 1 {
		return "1 session lives on"
	}
	return fmt.Sprintf("%d sessions live on", n)
}

func (a *app) guardianStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Report whether the guardian runs; exit status 1 if not",
		Args:  counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.dirs()
			if err != nil {
				return err
			}
			s := api.Status{Socket: guardian.Socket(d)}
			c, err := a.dial(cmd.Context())
			if err == nil {
				defer c.Close()
				s, err = c.Status(cmd.Context())
			}
			if err != nil && !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			err = nil // not running is an answer too
			if asJSON {
				err = a.json(s)
			} else {
				a.tellStatus(s)
			}
			if err == nil && !s.Running {
				err = &statusError{statusFailed}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) tellStatus(s api.Status) {
	if !s.Running {
		a.line("not running")
		return
	}
	a.table([][]string{
		{"running", "pid " + strconv.Itoa(s.PID) + ", since " + s.StartedAt.Local().Format(time.DateTime)},
		{"version", s.Version},
		{"socket", s.Socket},
		{"sessions", strconv.Itoa(s.Sessions)},
		{"window", orDash(s.UI)},
		{"policy", s.PolicyDigest},
	})
	if s.PolicyError != "" {
		a.out.WriteString(a.paint("!", red))
		a.line(" the configuration on disk is not in force, the last good one is: %s", s.PolicyError)
	}
	if s.AuditError != "" {
		a.out.WriteString(a.paint("!", red))
		a.line(" the audit cannot be written, everything is denied: %s", s.AuditError)
	}
	a.notices(s.Notices)
}

func (a *app) guardianReload() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration again; a bad one changes nothing",
		Args:  counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := c.Reload(cmd.Context())
			if err != nil {
				return err
			}
			a.notices(r.Notices)
			if r.Changed {
				a.line("policy %s is in force, before it was %s", r.Digest, r.Previous)
			} else {
				a.line("policy %s is in force, as before", r.Digest)
			}
			return nil
		},
	}
}
