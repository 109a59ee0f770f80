package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/serve"
	"cloister/serve/tenants"

	"github.com/spf13/cobra"
)

func (a *Commands) serveTenant() *cobra.Command {
	return cli.Group("tenant", "Who may have sandboxes", a.serveTenantAdd(), a.serveTenantList(),
		a.serveTenantConfigure(), a.serveTenantStop(), a.serveTenantRemove())
}

func (a *Commands) serveTenantAdd() *cobra.Command {
	l := tenants.Usual()
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a tenant, and print where its configuration is",
		Args:  cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := tenants.CheckName(args[0]); err != nil {
				return cli.Usage("", "serve tenant add: %v", err)
			}
			if l.Sandboxes < 1 || l.RequestsPerMinute < 1 || l.Streams < 1 || l.Lifetime < time.Second || l.CPUs < 0 ||
				l.Ahead < 0 {
				return cli.Usage("", "serve tenant add: a limit must be at least 1, and --ahead 0")
			}
			if l.Memory != "" {
				if _, err := config.ParseSize(l.Memory); err != nil {
					return cli.Usage("such as 512MiB or 8GiB", "serve tenant add: --memory: %v", err)
				}
			}
			r, err := a.tenants()
			if err != nil {
				return err
			}
			file := filepath.Join(r.Home(args[0]), "config", "cloister", "config.yaml")
			t := tenants.Tenant{Name: args[0], Created: time.Now().UTC(), Limits: l}
			if r.Kept() {
				t.Created, t.Config = t.Created.Truncate(time.Microsecond), tenants.Standard // as the database keeps it
			}
			if err := r.Add(t, func() error {
				again, err := tenants.Configure(file)
				if err != nil {
					return err
				}
				if again {
					a.Notice("cloister: a tenant of that name was removed; this one has its policy, secrets, snapshots and record")
				}
				return a.recordTenant(cmd.Context(), r, t.Name, audit.TenantAdd, t.Name)
			}); err != nil {
				return fmt.Errorf("serve tenant add %s: %w", args[0], err)
			}
			a.Line("%s", file)
			return nil
		},
	}
	fl := c.Flags()
	fl.IntVar(&l.Sandboxes, "sandboxes", l.Sandboxes, "sandboxes that exist at once, paused ones too")
	fl.DurationVar(&l.Lifetime, "lifetime", l.Lifetime, "the longest timeout of a sandbox")
	fl.IntVar(&l.RequestsPerMinute, "requests", l.RequestsPerMinute, "requests in a minute")
	fl.IntVar(&l.Streams, "streams", l.Streams, "requests under way at once")
	fl.StringVar(&l.Memory, "memory", "", "memory of one sandbox, such as 2GiB")
	fl.Float64Var(&l.CPUs, "cpus", 0, "processors of one sandbox")
	fl.IntVar(&l.Ahead, "ahead", l.Ahead, "sandboxes that are started before a request; 0 for none")
	return c
}

// recordTenant records what is about to be done to a tenant, in the tenant's own record.
func (a *Commands) recordTenant(ctx context.Context, r *tenants.Register, name string, kind audit.Kind,
	resource string) error {
	at := serve.Place{Tenant: name, Dir: r.Home(name)}
	return (&engine{a: a}).write(ctx, at, api.TenantRecord{Kind: kind, Action: "change", Resource: resource})
}

func (a *Commands) serveTenantList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the tenants", Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			r, err := a.tenants()
			if err != nil {
				return err
			}
			list, err := r.List()
			if err != nil {
				return err
			}
			if asJSON {
				if list == nil {
					list = []tenants.Tenant{}
				}
				return a.JSON(list)
			}
			rows := [][]string{{"NAME", "SANDBOXES", "REQUESTS", "CREATED"}}
			for _, t := range list {
				l, made := t.Limits, t.Created.Local().Format(time.DateTime)
				rows = append(rows, []string{t.Name, strconv.Itoa(l.Sandboxes), strconv.Itoa(l.RequestsPerMinute), made})
			}
			a.Table(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func (a *Commands) serveTenantRemove() *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Short:             "End a tenant's keys and sandboxes; its files and its record stay",
		Args:              cli.Args(1, 1),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.tenants()
			if err == nil {
				// First, so that no key makes another sandbox meanwhile.
				err = r.Remove(args[0], func() error {
					return a.recordTenant(cmd.Context(), r, args[0], audit.TenantRemove, args[0])
				})
			}
			if errors.Is(err, tenants.ErrMissing) {
				return noTenant("serve tenant remove", args[0], "cloister serve tenant list")
			}
			if err != nil {
				return err
			}
			return r.EndRemoved(cmd.Context(), args[0], func(ctx context.Context) error {
				return a.endTenant(ctx, serve.Place{Tenant: args[0], Dir: r.Home(args[0])})
			})
		},
	}
}

func (a *Commands) serveTenantStop() *cobra.Command {
	return &cobra.Command{
		Use:               "stop NAME",
		Short:             "End a tenant's sandboxes that run, and its guardian; the next request starts one",
		Args:              cli.Args(1, 1),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.tenants()
			if err == nil {
				_, err = r.Named(args[0])
			}
			if errors.Is(err, tenants.ErrMissing) {
				return noTenant("serve tenant stop", args[0], "cloister serve tenant list")
			}
			if err == nil {
				err = a.recordTenant(cmd.Context(), r, args[0], audit.TenantStop, args[0])
			}
			if err != nil {
				return err
			}
			return a.endTenant(cmd.Context(), serve.Place{Tenant: args[0], Dir: r.Home(args[0])})
		},
	}
}

// noTenant is the error of a name that no tenant has.
func noTenant(of, name, advice string) error {
	return cli.Hinted(fmt.Errorf("%s: no tenant is called %q", of, name), advice)
}

// endTenant ends the sessions of a tenant's instance, and its guardian.
func (a *Commands) endTenant(ctx context.Context, p serve.Place) error {
	t, err := (&engine{a: a}).at(p)
	if err != nil {
		return err
	}
	c, err := t.Reach(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	names, err := cli.LiveNames(ctx, c)
	for _, name := range names {
		if _, serr := cli.StopOne(ctx, c, name, stopGrace); serr != nil && !missing(serr) {
			err = errors.Join(err, serr)
		}
	}
	if err != nil {
		return fmt.Errorf("end the sandboxes of %s: %w", p.Tenant, err)
	}
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	return cli.EndGuardian(ctx, c, status, "cloister serve tenant")
}

func (a *Commands) completeTenants(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	r, err := a.tenants()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := r.List() // nothing to offer; Tab is no place for errors
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
