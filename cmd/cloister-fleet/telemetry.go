package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloister/audit/otlp"
	"cloister/cmd/cloister/cli"
	"cloister/guardian/folders"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"
)

// telemetryFlags are the flags of telemetry, as typed.
type telemetryFlags struct {
	otlp, ca string
	headers  []string
	follow   bool
	tenants  bool
}

func telemetryCommand(a *cli.App) *cobra.Command {
	f := &telemetryFlags{}
	c := &cobra.Command{
		Use:   "telemetry --otlp URL",
		Short: "Send traces, logs and counts to an OpenTelemetry collector",
		Long: `Read the record and send it by OTLP over HTTP: a trace of each session, a log record of
each event, and counts. What was sent is noted, and another run goes on behind it. No argument, no
command line, no query and no free text leaves. While the collector is away the record waits; a batch
that it refuses for good is counted and said.`,
		Example: "  cloister-fleet telemetry --otlp http://127.0.0.1:4318\n" +
			"  cloister-fleet telemetry --otlp https://collector.example:4318 \\\n" +
			"      --header Authorization=/etc/otlp-token --follow --tenants",
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), a) },
	}
	fl := c.Flags()
	fl.StringVar(&f.otlp, "otlp", "", "the collector's `URL`, without /v1/…")
	fl.StringVar(&f.ca, "ca", "", "a `FILE` with the authorities of its certificate; the machine's unless said")
	fl.StringArrayVar(&f.headers, "header", nil, "`NAME=FILE`: send the header, whose value is the file's text")
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on as events come, until SIGTERM")
	fl.BoolVar(&f.tenants, "tenants", false, "the records of all tenants of cloister serve, not the person's own")
	return c
}

// options checks the words.
func (f *telemetryFlags) options(a *cli.App) (otlp.Options, error) {
	o := otlp.Options{Headers: map[string]string{}}
	u, err := url.Parse(f.otlp)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return o, cli.Usage("such as http://127.0.0.1:4318", "telemetry: --otlp %q: want a URL of http or https",
			f.otlp)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && (ip == nil || !ip.IsLoopback()) {
		return o, cli.Usage("name https, or a collector at 127.0.0.1",
			"telemetry: --otlp %s: beyond the loopback the record would be sent in the clear", f.otlp)
	}
	o.Endpoint = u
	for _, h := range f.headers {
		name, file, ok := strings.Cut(h, "=")
		if !ok || name == "" || file == "" {
			return o, cli.Usage("such as Authorization=/etc/otlp-token", "telemetry: --header %q: want NAME=FILE", h)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return o, fmt.Errorf("telemetry: --header %s: %w", name, err)
		}
		value := strings.TrimSpace(string(text))
		if value == "" || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return o, cli.Usage("one line of text", "telemetry: --header %q: no header can have that name or that text", h)
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			a.Notice("others may read %s too: chmod 600 %s", file, file)
		}
		o.Headers[name] = value
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return o, fmt.Errorf("telemetry: --ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return o, cli.Usage("", "telemetry: --ca %s holds no certificate", f.ca)
		}
		o.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return o, nil
}

// record is one record that is sent.
type record struct{ tenant, dir, ledger string }

// records are those that the words name, as they are now.
func (f *telemetryFlags) records(a *cli.App) ([]record, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	ledger := func(name string) string { return filepath.Join(d.State, "telemetry", name+".json") }
	if !f.tenants {
		return []record{{"", folders.Audit(d), ledger("own")}}, nil
	}
	homes, err := filepath.Glob(filepath.Join(d.Data, "serve", "t", "*", "state", "cloister", "audit"))
	var out []record
	for _, dir := range homes {
		tenant := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir))))
		out = append(out, record{tenant, dir, ledger("tenant-" + tenant)})
	}
	return out, err
}

// lookEvery is how often new tenants are looked for, and counts are said.
const lookEvery = 5 * time.Second

func (f *telemetryFlags) run(ctx context.Context, a *cli.App) error {
	o, err := f.options(a)
	if err != nil {
		return err
	}
	s := &sender{flags: f, app: a, options: o, known: map[string]*otlp.Exporter{}}
	err = s.look(ctx)
	if f.follow {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for err == nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				s.say()
				err = s.look(ctx)
			}
		}
	}
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts()
	a.Line("%d events sent, %d refused by the collector, %d requests made again", c.Sent, c.Refused, c.Retries)
	return errors.Join(append(s.failed, err)...)
}

// sender sends several records, each by a goroutine of its own.
type sender struct {
	flags   *telemetryFlags
	app     *cli.App
	options otlp.Options
	wg      sync.WaitGroup
	said    otlp.Counts

	mu     sync.Mutex
	known  map[string]*otlp.Exporter // by folder
	failed []error
}

// look begins with the records that are new.
func (s *sender) look(ctx context.Context) error {
	list, err := s.flags.records(s.app)
	if err != nil {
		return err
	}
	for _, r := range list {
		s.mu.Lock()
		_, known := s.known[r.dir]
		s.mu.Unlock()
		if known {
			continue
		}
		o := s.options
		o.Tenant = r.tenant
		e, err := otlp.Open(ctx, o)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.known[r.dir] = e
		s.mu.Unlock()
		s.wg.Go(func() { s.fail(s.send(ctx, e, r)) })
	}
	return nil
}

func (s *sender) send(ctx context.Context, e *otlp.Exporter, r record) error {
	err := e.Run(ctx, otlp.Source{Dir: r.dir, Ledger: r.ledger, Follow: s.flags.follow, Bad: s.fail})
	switch over := ctx.Err() != nil && errors.Is(err, ctx.Err()); {
	case over && s.flags.follow:
		err = nil // that is how it ends; what was not sent is sent by the next run
	case over:
		err = cli.Hinted(fmt.Errorf("telemetry: ended before all of %s was sent", r.dir),
			"is a collector at "+s.flags.otlp+"? the next run goes on")
	}
	if errors.Is(err, otlp.ErrOther) {
		err = cli.Hinted(err, "cloister audit verify proves the record; removing "+r.ledger+" sends all of it")
	}
	return errors.Join(err, e.Close(context.WithoutCancel(ctx)))
}

// fail notes an error for the end; one while the records are followed is said at once.
func (s *sender) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 100
	if len(s.failed) < most {
		s.failed = append(s.failed, err)
	}
	if s.flags.follow {
		s.app.Notice("cloister-fleet: %v", err)
	}
}

// counts adds up; the lock is held.
func (s *sender) counts() (c otlp.Counts) {
	for _, e := range s.known {
		one := e.Counts()
		c.Sent, c.Refused, c.Retries = c.Sent+one.Sent, c.Refused+one.Refused, c.Retries+one.Retries
	}
	return c
}

// say says what was refused or sent again since it was last said.
func (s *sender) say() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts()
	if c.Refused != s.said.Refused || c.Retries != s.said.Retries {
		s.app.Notice("cloister-fleet: %d events sent, %d refused by the collector, %d requests made again: is it up?",
			c.Sent, c.Refused, c.Retries)
	}
	s.said = c
}
