// Package replicas is what a person types of serve about other servers.
//
// The promise: the database's program is the one beside cloister itself, and no address of this server is
// given to others by which keys would be sent in the clear.
//
// Most readers want [Flags.Shared].
package replicas

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/internal/realpath"
	"cloister/serve/database"
	"cloister/serve/fleet"
	"cloister/serve/forward"
	"cloister/serve/objects"
	"cloister/serve/snapshots"

	"github.com/spf13/cobra"
)

// Flags are the flags of serve about other servers, as typed.
type Flags struct {
	advertise       string
	lease           time.Duration
	snapshots, keys string
}

// databaseVar is the variable that stands for --database.
const databaseVar = "CLOISTER_DATABASE"

// leaseUsual is how long a server may be out of touch with the database.
const leaseUsual = 15 * time.Second

// Add adds them to serve.
func (f *Flags) Add(a *cli.App, c *cobra.Command) {
	usage := "for several servers: keep tenants, keys and sandboxes' places at `URL`, postgres://USER@HOST/NAME; unless " +
		"said $" + databaseVar
	c.PersistentFlags().Func("database", usage, func(url string) error {
		if url == "" {
			return errors.New("an empty word is no URL")
		}
		a.Env[databaseVar] = url
		return nil
	})
	fl := c.Flags()
	fl.StringVar(&f.advertise, "advertise", "", "the `URL` for other servers to reach this one; that of --e2b unless said")
	fl.DurationVar(&f.lease, "lease", leaseUsual,
		"how long it may be out of touch with the database until others take over")
	fl.StringVar(&f.snapshots, "snapshots", "",
		"with --database: keep snapshots for all servers in the bucket at `URL`, https://HOST/BUCKET[/PREFIX]")
	fl.StringVar(&f.keys, "snapshot-keys", "", "a `FILE` with the servers' keys of snapshots, which the bucket never sees")
}

// Open gives a client of the servers' database; nil where none is named. server is this server's
// place, empty for a command.
func Open(a *cli.App, server, address string, lease time.Duration) (*database.Client, error) {
	url := a.Env.Get(databaseVar)
	if url == "" {
		return nil, nil
	}
	program, env, err := beside(a, "--database")
	if err != nil {
		return nil, err
	}
	return database.New(database.Options{
		Dial: database.Started(program, url, env), Server: server, Address: address, Lease: lease,
	}), nil
}

// beside gives the program that has the libraries of a fleet, and its environment.
func beside(a *cli.App, flag string) (program string, env []string, err error) {
	self, err := os.Executable()
	if err == nil {
		self, err = realpath.Of(self)
	}
	if err != nil {
		return "", nil, fmt.Errorf("serve: find cloister itself: %w", err)
	}
	if program, err = fleet.Beside(self, flag); err != nil {
		return "", nil, fmt.Errorf("serve: %w", err)
	}
	for name, value := range a.Env {
		env = append(env, name+"="+value)
	}
	return program, env, nil
}

// Snapshots gives where all servers of a database keep snapshots; nil where no bucket is named. It asks the bucket
// for nothing: one that is away is said when it is used.
func (f *Flags) Snapshots(a *cli.App, shared *database.Client, log *slog.Logger) (*snapshots.Cell, error) {
	switch {
	case f.snapshots == "" && f.keys == "":
		return nil, nil
	case f.snapshots == "" || f.keys == "":
		return nil, cli.Usage("openssl rand -hex 32 prints a key, the same one for all servers",
			"serve: --snapshots URL and --snapshot-keys FILE go together")
	case shared == nil:
		return nil, cli.Usage("of one server alone snapshots are in its own folder",
			"serve: --snapshots is for --database URL")
	}
	keys, err := snapshots.ReadKeys(f.keys)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	program, env, err := beside(a, "--snapshots")
	if err != nil {
		return nil, err
	}
	bucket := &objects.Client{Dial: fleet.Started(program, env, objects.Command, f.snapshots)}
	return snapshots.NewCell(shared, bucket, keys, log), nil
}

// Shared gives the client of a server that listens, whose folder is dir; nil for one that is alone.
func (f *Flags) Shared(a *cli.App, dir, domain string, encrypted bool, l net.Listener) (*database.Client, error) {
	if a.Env.Get(databaseVar) == "" {
		if f.advertise != "" {
			return nil, cli.Usage("", "serve: --advertise is for --database URL")
		}
		return nil, nil
	}
	if f.lease < time.Second || f.lease > time.Hour {
		return nil, cli.Usage("such as 15s", "serve: --lease %s: want a second at least, and an hour at most", f.lease)
	}
	address := f.advertise
	if address == "" {
		address = "http://" + l.Addr().String()
		if encrypted {
			address = "https://" + l.Addr().String()
		}
	}
	if _, err := forward.CheckAddress(address, domain); err != nil {
		return nil, cli.Usage("--advertise says by which address other servers reach this one",
			"serve: the address for other servers: %v", err)
	}
	place, err := database.Place(dir)
	if err != nil {
		return nil, err
	}
	return Open(a, place, address, f.lease)
}
