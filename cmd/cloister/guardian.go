package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/guardian"
	"cloister/guardian/folders"
	"cloister/internal/xdg"
	"cloister/session/terminal"

	"github.com/spf13/cobra"
)

func (a *app) guardianCommand() *cobra.Command {
	return cli.Group("guardian", "Start, stop, ask and watch the daemon that every cloister depends on",
		a.guardianStart(), a.guardianStop(), a.guardianStatus(), a.guardianReload(), a.guardianOpen(), a.guardianAPI(),
		a.guardianDaemon(), a.guardianProbe(), guardianKeep())
}

// locksDir is where the sessions of one project find each other.
func locksDir(d xdg.Dirs) string { return filepath.Join(d.Runtime, "locks") }

func (a *app) guardianDaemon() *cobra.Command {
	var fd int
	c := &cobra.Command{
		Use:    "daemon",
		Short:  "Be the guardian, in the foreground",
		Hidden: true,
		Args:   cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tell := func(error) {}
			if fd > 2 {
				f := os.NewFile(uintptr(fd), "ready")
				// Once: the reader is gone after the first word. Whether it
				// is still there does not matter to the guardian.
				tell = func(err error) {
					_ = json.NewEncoder(f).Encode(cli.ReportOf(err))
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
		Use: "probe", Hidden: true, Args: cli.Args(0, 0), Short: "Find out what this machine can guarantee, for the guardian",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.JSON(a.diagnose(cmd.Context())) },
	}
}

func (a *app) runGuardian(ctx context.Context, ready func()) error {
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	level := slog.LevelInfo
	if a.Debug {
		level = slog.LevelDebug
	}
	helper, hostEnv, err := a.helper()
	if err != nil {
		return err
	}
	host, err := a.Resolver(d)
	if err != nil {
		return err
	}
	if _, err := x509.SystemCertPool(); err != nil { // read once: before a session writes anything
		return fmt.Errorf("read the host's certificate authorities: %w", err)
	}
	shim := a.Self(helper[0], d)
	shim.Env, shim.Dir = a.DaemonEnvironment(host), "/"
	forget := func() error { return nil }
	err = guardian.Run(ctx, guardian.Options{
		Helper:  helper,
		HostEnv: hostEnv,
		Shim:    shim,
		Probe:   []string{helper[0], "guardian", "probe"},
		Door:    func(id string) string { return terminal.DoorOf(d.Runtime, id) },
		Hold:    a.holdBox,
		Keyring: a.secrets().Keyring(), SecretEnv: a.secrets().Environment(hostEnv),
		GitEnv: a.gitEnv(hostEnv), Obeys: a.Obeys(ctx, d, host),
		Bus: a.Env.Get("DBUS_SESSION_BUS_ADDRESS"), AgentSocket: a.Env.Get("SSH_AUTH_SOCK"),
		Dirs:    d,
		Home:    a.Home(),
		Version: cli.Version(),
		Logger:  slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level})),
		Sweep:   a.sweep(d),
		Ready: func() {
			var nameErr error
			if forget, nameErr = cli.NameProgram(d); nameErr != nil {
				forget = func() error { return nil }
				fmt.Fprintln(a.Stderr, a.Printable(a.Stderr, nameErr.Error()))
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
		Args:    cli.Args(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.JSON(guardian.OpenAPI(cli.Version())) },
	}
}

func (a *app) guardianStart() *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the guardian, if none runs",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.guardianRuns(cmd.Context())
			if errors.Is(err, client.ErrNotRunning) { // it was on its way out
				s, err = a.guardianRuns(cmd.Context())
			}
			if err != nil {
				return err
			}
			a.Line("the guardian runs, pid %d", s.PID)
			return nil
		},
	}
}

// guardianRuns starts a guardian where there is none, and asks it.
func (a *app) guardianRuns(ctx context.Context) (api.Status, error) {
	c, err := a.Ensure(ctx)
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
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			running, err := a.StopGuardian(cmd.Context(), "cloister guardian stop", func(s api.Status) error {
				if s.Sessions > 0 {
					a.Notice("%s without a network until a guardian runs again: cloister guardian start", sessions(s.Sessions))
				}
				return nil
			})
			if err == nil && !running {
				a.Notice("the guardian is not running")
			}
			return err
		},
	}
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
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			s := api.Status{Socket: folders.Socket(d)}
			c, err := a.Dial(cmd.Context())
			if err == nil {
				defer c.Close()
				s, err = c.Status(cmd.Context())
			}
			if err != nil && !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			err = nil // not running is an answer too
			if asJSON {
				err = a.JSON(s)
			} else {
				a.tellStatus(s)
			}
			if err == nil && !s.Running {
				err = &cli.StatusError{Status: cli.StatusFailed}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) tellStatus(s api.Status) {
	if !s.Running {
		a.Line("not running")
		return
	}
	a.Table([][]string{
		{"running", "pid " + strconv.Itoa(s.PID) + ", since " + s.StartedAt.Local().Format(time.DateTime)},
		{"version", s.Version},
		{"socket", s.Socket},
		{"sessions", strconv.Itoa(s.Sessions)},
		{"window", cli.OrDash(s.UI)},
		{"policy", s.PolicyDigest},
	})
	if s.PolicyError != "" {
		a.Out.WriteString(a.Paint("!", cli.Red))
		a.Line(" the configuration on disk is not in force, the last good one is: %s", s.PolicyError)
	}
	if s.AuditError != "" {
		a.Out.WriteString(a.Paint("!", cli.Red))
		a.Line(" the audit cannot be written, everything is denied: %s", s.AuditError)
	}
	a.Notices(s.Notices)
}

func (a *app) guardianReload() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration again; a bad one changes nothing",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := c.Reload(cmd.Context())
			if err != nil {
				return err
			}
			a.Notices(r.Notices)
			if r.Changed {
				a.Line("policy %s is in force, before it was %s", r.Digest, r.Previous)
			} else {
				a.Line("policy %s is in force, as before", r.Digest)
			}
			return nil
		},
	}
}
