// Package replicas is what a person types of serve about other servers.
//
// The promise: the database's program is the one beside cloister itself, and no address of this server is
// given to others by which keys would be sent in the clear.
//
// Most readers want [Flags.Shared].
package replicas

import (
	"fmt"
	"net"
	"os"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/internal/realpath"
	"cloister/serve/database"
	"cloister/serve/forward"

	"github.com/spf13/cobra"
)

// Flags are the flags of serve about other servers, as typed.
type Flags struct {
	advertise string
	lease     time.Duration
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
		a.Env[databaseVar] = url
		return nil
	})
	fl := c.Flags()
	fl.StringVar(&f.advertise, "advertise", "", "the `URL` for other servers to reach this one; that of --e2b unless said")
	fl.DurationVar(&f.lease, "lease", leaseUsual,
		"how long it may be out of touch with the database until others take over")
}

// Open gives a client of the servers' database; nil where none is named. server is this server's
// place, empty for a command.
func Open(a *cli.App, server, address string, lease time.Duration) (*database.Client, error) {
	url := a.Env.Get(databaseVar)
	if url == "" {
		return nil, nil
	}
	self, err := os.Executable()
	if err == nil {
		self, err = realpath.Of(self)
	}
	if err != nil {
		return nil, fmt.Errorf("serve: find cloister itself: %w", err)
	}
	program, err := database.Beside(self)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	var env []string
	for name, value := range a.Env {
		env = append(env, name+"="+value)
	}
	return database.New(database.Options{
		Dial: database.Started(program, url, env), Server: server, Address: address, Lease: lease,
	}), nil
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
