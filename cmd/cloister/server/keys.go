package server

import (
	"errors"
	"fmt"
	"time"

	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/serve/tenants"

	"github.com/spf13/cobra"
)

func (a *Commands) serveKey() *cobra.Command {
	return cli.Group("key", "Keys of tenants", a.serveKeyAdd(), a.serveKeyList(), a.serveKeyRemove())
}

func (a *Commands) serveKeyAdd() *cobra.Command {
	var label string
	var readOnly bool
	var expires time.Duration
	c := &cobra.Command{
		Use:               "add TENANT",
		Short:             "Make a key, and print it for the only time",
		Args:              cli.Args(1, 1),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if expires < 0 {
				return cli.Usage("", "serve key add: --expires cannot be negative")
			}
			r, err := a.tenants()
			if err != nil {
				return err
			}
			k := tenants.Key{Tenant: args[0], Label: label, Scope: tenants.All, Created: time.Now().UTC()}
			if readOnly {
				k.Scope = tenants.Read
			}
			if expires > 0 {
				k.Expires = k.Created.Add(expires)
			}
			k, text, err := r.MakeKey(k, func(k tenants.Key) error {
				return a.recordTenant(cmd.Context(), r, k.Tenant, audit.TenantKeyAdd, k.ID+" "+string(k.Scope))
			})
			if errors.Is(err, tenants.ErrMissing) {
				return noTenant("serve key add", args[0], "cloister serve tenant add "+args[0])
			}
			if err != nil {
				return err
			}
			a.Notice("cloister: key %s of %s; it is not shown again", k.ID, k.Tenant)
			a.Line("%s", text)
			return nil
		},
	}
	c.Flags().StringVar(&label, "label", "", "what it is for")
	c.Flags().BoolVar(&readOnly, "read-only", false, "it may list and look, and change nothing")
	c.Flags().DurationVar(&expires, "expires", 0, "how long it is good for, such as 720h; for ever unless said")
	return c
}

// keyLine is a key as --json has it, without its digest.
type keyLine struct {
	ID      string        `json:"id"`
	Tenant  string        `json:"tenant"`
	Label   string        `json:"label"`
	Scope   tenants.Scope `json:"scope"`
	Created time.Time     `json:"created"`
	Expires time.Time     `json:"expires,omitzero"`
}

func (a *Commands) serveKeyList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list [TENANT]", Short: "List keys, without the keys themselves", Args: cli.Args(0, 1),
		ValidArgsFunction: a.completeTenants,
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := a.tenants()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if _, err := r.Named(args[0]); errors.Is(err, tenants.ErrMissing) {
					return noTenant("serve key list", args[0], "cloister serve tenant list")
				}
			}
			keys, err := r.Keys(append(args, "")[0])
			if err != nil {
				return err
			}
			lines, rows := []keyLine{}, [][]string{{"ID", "TENANT", "SCOPE", "CREATED", "EXPIRES", "LABEL"}}
			for _, k := range keys {
				lines = append(lines, keyLine{k.ID, k.Tenant, k.Label, k.Scope, k.Created, k.Expires})
				until := "-"
				if !k.Expires.IsZero() {
					until = k.Expires.Local().Format(time.DateTime)
				}
				made := k.Created.Local().Format(time.DateTime)
				rows = append(rows, []string{k.ID, k.Tenant, string(k.Scope), made, until, k.Label})
			}
			if asJSON {
				return a.JSON(lines)
			}
			a.Table(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func (a *Commands) serveKeyRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove ID",
		Short: "End a key at once",
		Args:  cli.Args(1, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			r, err := a.tenants()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			keys, _ := r.Keys("") // nothing to offer; Tab is no place for errors
			var ids []string
			for _, k := range keys {
				ids = append(ids, k.ID+"\t"+k.Tenant+" "+k.Label)
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.tenants()
			if err == nil {
				err = r.RemoveKey(args[0], func(k tenants.Key) error {
					return a.recordTenant(cmd.Context(), r, k.Tenant, audit.TenantKeyRemove, k.ID)
				})
			}
			if errors.Is(err, tenants.ErrNoKey) {
				return cli.Hinted(fmt.Errorf("serve key remove: no key has the id %q", args[0]), "cloister serve key list")
			}
			return err
		},
	}
}
