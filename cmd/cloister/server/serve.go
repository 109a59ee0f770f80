// Package server is the command that gives sandboxes to programs and tenants, and those about tenants, keys and
// templates.
//
// The promise: each tenant is an instance of its own, of whose guardian and record nothing is shared with the
// person's, and what is changed about a tenant is recorded first.
//
// It answers no request and keeps no tenant itself: the rooms of serve do.
//
// Most readers want [Commands].
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/replicas"
	"cloister/internal/realpath"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/serve"
	"cloister/serve/certs"
	"cloister/serve/database"
	"cloister/serve/e2b"
	sandboxfiles "cloister/serve/files"
	"cloister/serve/forward"
	"cloister/serve/people"
	"cloister/serve/relay"
	"cloister/serve/tenants"

	"github.com/spf13/cobra"
)

// Commands are the commands of one invocation.
type Commands struct {
	*cli.App
	// Driver is that of an isolation level, in an instance.
	Driver func(of *cli.App, isolation string) (sandbox.Driver, error)
}

// serveFlags are the flags of serve, as typed.
type serveFlags struct {
	e2b, domain, cert, key string
	issuer, client, claim  string
	roles                  []string
	drain                  time.Duration
	others                 replicas.Flags
}

// Command is serve, with the verbs about tenants, keys and templates.
func (a *Commands) Command() *cobra.Command {
	f := &serveFlags{}
	c := &cobra.Command{
		Use:   "serve --e2b ADDR [flags]",
		Short: "Give sandboxes to programs and tenants, by E2B's API",
		Long: `Answer the SDKs of E2B with cloisters. Each tenant has keys, a configuration with its
own policy, a guardian and a record of its own; a request can narrow the policy, never widen
it. Without a certificate only an address of the loopback is listened on.`,
		Example: "  cloister serve tenant add acme && cloister serve key add acme\n" +
			"  cloister serve --e2b 127.0.0.1:3000\n" +
			"  E2B_API_URL=http://127.0.0.1:3000 E2B_SANDBOX_URL=http://127.0.0.1:3000 E2B_API_KEY=… node script.mjs",
		Args:        cli.Args(0, 0),
		Annotations: map[string]string{cli.TakesNames: "yes"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.e2b, "e2b", "", "listen on `ADDR` for E2B's SDKs, such as 127.0.0.1:3000")
	fl.StringVar(&f.domain, "domain", "", "the `DOMAIN` below which sandboxes have names, PORT-ID.DOMAIN")
	fl.StringVar(&f.cert, "tls-cert", "", "a `FILE` with the certificate of DOMAIN and *.DOMAIN")
	fl.StringVar(&f.key, "tls-key", "", "a `FILE` with its key")
	fl.StringVar(&f.issuer, "oidc", "", "take the tokens of persons too, of the OpenID provider `ISSUER`")
	fl.StringVar(&f.client, "client", "", "the client `ID` that tokens are issued for")
	fl.StringVar(&f.claim, "claim", "groups", "the claim of a token whose values are roles")
	fl.StringArrayVar(&f.roles, "role", nil, "`VALUE=TENANT[:read]`, what a value of the claim may do")
	fl.DurationVar(&f.drain, "drain", 10*time.Second, "how long requests under way may take at the end")
	f.others.Add(a.App, c)
	c.AddCommand(a.serveTenant(), a.serveKey(), a.serveTemplate(), serveInside())
	return c
}

// people are those of an OpenID provider; nil where none is named.
func (f *serveFlags) people(ctx context.Context) (*people.Provider, error) {
	if f.issuer == "" {
		if len(f.roles) > 0 || f.client != "" {
			return nil, cli.Usage("", "serve: --client and --role are for --oidc ISSUER")
		}
		return nil, nil
	}
	p, err := people.Open(ctx, people.Options{Issuer: f.issuer, Client: f.client, Claim: f.claim, Roles: f.roles})
	if err != nil {
		return nil, fmt.Errorf("serve: --oidc: %w", err)
	}
	return p, nil
}

// serveDir is where everything of the server lies.
func serveDir(d xdg.Dirs) string { return filepath.Join(d.Data, "serve") }

func (a *Commands) tenants() (*tenants.Register, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	shared, err := replicas.Open(a.App, "", "", 0)
	if err != nil {
		return nil, err
	}
	if shared != nil {
		return tenants.OpenKept(serveDir(d), shared)
	}
	return tenants.Open(serveDir(d))
}

// served gives the register that a server answers by, and what it shares with others; nil for none.
func (a *Commands) served(f *serveFlags, l net.Listener) (*tenants.Register, *database.Client, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(serveDir(d), 0o700); err != nil {
		return nil, nil, fmt.Errorf("serve: %w", err)
	}
	shared, err := f.others.Shared(a.App, serveDir(d), f.domain, f.cert != "", l)
	if err != nil {
		return nil, nil, err
	}
	if shared == nil {
		r, err := tenants.Open(serveDir(d))
		return r, nil, err
	}
	r, err := tenants.OpenKept(serveDir(d), shared)
	return r, shared, err
}

// listen checks the address and listens.
func (f *serveFlags) listen() (net.Listener, error) {
	if f.e2b == "" {
		return nil, cli.Usage("such as: cloister serve --e2b 127.0.0.1:3000", "serve: --e2b ADDR is missing")
	}
	if (f.cert == "") != (f.key == "") {
		return nil, cli.Usage("", "serve: --tls-cert and --tls-key go together")
	}
	host, port, err := net.SplitHostPort(f.e2b)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return nil, cli.Usage("such as 127.0.0.1:3000", "serve: --e2b %q: %v", f.e2b, err)
	}
	if ip := net.ParseIP(host); f.cert == "" && (ip == nil || !ip.IsLoopback()) {
		return nil, cli.Usage("--tls-cert and --tls-key name a certificate; or listen on 127.0.0.1",
			"serve: --e2b %s: beyond the loopback keys would be sent in the clear", f.e2b)
	}
	l, err := net.Listen("tcp", f.e2b)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	return l, nil
}

func (a *Commands) serve(ctx context.Context, f *serveFlags) error {
	l, err := f.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	log := slog.New(slog.NewTextHandler(a.Stderr, nil))
	plain := l
	if f.cert != "" {
		k, err := certs.Open(certs.Options{Cert: f.cert, Key: f.key, Domain: f.domain, Log: log})
		if err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		l = tls.NewListener(l, k.Config())
	}
	register, shared, err := a.served(f, plain)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err == nil {
		program, err = realpath.Of(program)
	}
	if err != nil {
		return fmt.Errorf("serve: find cloister itself: %w", err)
	}
	kept, err := f.others.Snapshots(a.App, shared, log)
	if err != nil {
		return err
	}
	persons, err := f.people(ctx)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	runs := &engine{a: a, program: program, register: register}
	host, err := serve.Open(context.WithoutCancel(ctx), serve.Options{
		Engine: runs, Tenants: register, Shared: shared, Snapshots: kept, Kept: runs.kept, Program: program, Log: log,
	})
	if err != nil {
		return err
	}
	options := e2b.Options{
		Host: host, Tenants: register, People: persons, Images: runs.image, Domain: f.domain, Log: log,
	}
	if shared != nil {
		defer shared.Close()
		others := forward.New(shared, f.domain, log)
		defer others.Close()
		options.Elsewhere = others.Answer
	}
	defer host.Close()
	door := e2b.New(options)
	defer door.Close()
	return a.answer(ctx, f, l, door, host.Parted(), log)
}

// Bounds of connections.
const (
	headWithin = 10 * time.Second
	idleWithin = 2 * time.Minute
	maxHead    = 64 << 10
)

// answer serves until the context ends, and then lets what is under way end.
func (a *Commands) answer(
	ctx context.Context, f *serveFlags, l net.Listener, h http.Handler, parted <-chan error, log *slog.Logger,
) (err error) {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHead,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	a.Notice("cloister: serve listens on %s", l.Addr())
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case why := <-parted:
		defer func() { err = errors.Join(fmt.Errorf("serve: %w", why), err) }()
	case <-ctx.Done():
	}
	a.Notice("cloister: serve lets requests end, %s at most; sandboxes live on", f.drain)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.drain)
	defer cancel()
	if err := server.Shutdown(ending); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	} else if err != nil {
		return fmt.Errorf("serve: stop: %w", err)
	}
	return nil
}

// serveInside is what runs of this program in a sandbox.
func serveInside() *cobra.Command {
	c := cli.Group(serve.Verb, "Be the program of a sandbox",
		&cobra.Command{Use: "hold", Hidden: true, Args: cli.Args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			<-ctx.Done()
			return nil
		}},
		&cobra.Command{Use: "files", Hidden: true, Args: cli.Args(0, 0), RunE: func(*cobra.Command, []string) error {
			syscall.Umask(0o022)
			return sandboxfiles.Serve(os.Stdin, os.Stdout)
		}},
		&cobra.Command{Use: "dial PORT", Hidden: true, Args: cli.Args(1, 1), RunE: func(_ *cobra.Command, w []string) error {
			return relay.Relay(w[0], os.Stdin, os.Stdout)
		}},
	)
	c.Hidden = true
	return c
}
