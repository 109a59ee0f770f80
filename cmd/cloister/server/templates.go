package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/policyset"
	"cloister/sandbox/image"
	"cloister/serve"
	"cloister/serve/templates"
	"cloister/session/launch"

	"github.com/spf13/cobra"
)

// image is the ID of an image that a tenant's store has by that digest; empty for none.
func (e *engine) image(tenant, digest string) (string, error) {
	store, err := e.images(tenant)
	if err != nil {
		return "", err
	}
	i, err := store.Find(digest)
	if errors.Is(err, image.ErrNotStored) {
		return "", nil
	}
	return i.ID, err
}

// images is the store of a tenant's instance.
func (e *engine) images(tenant string) (*image.Store, error) {
	r := e.register
	if r == nil {
		var err error
		if r, err = e.a.tenants(); err != nil {
			return nil, err
		}
	}
	t, err := e.at(serve.Place{Tenant: tenant, Dir: r.Home(tenant)})
	if err != nil {
		return nil, err
	}
	return t.Images()
}

func (a *Commands) serveTemplate() *cobra.Command {
	return cli.Group("template", "What sandboxes of a tenant can be made of", a.serveTemplateAdd(), a.serveTemplateList(),
		a.serveTemplateRemove())
}

func (a *Commands) serveTemplateAdd() *cobra.Command {
	var forbid, isolation string
	c := &cobra.Command{
		Use:   "add TENANT NAME IMAGE",
		Short: "Fetch an image, and make a template of its digest",
		Example: "  cloister serve template add acme python debian@sha256:… --forbid no-push.cedar " +
			"--isolation gvisor",
		Args:              cli.Args(3, 3),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.templates("serve template add", args[0])
			if err != nil {
				return err
			}
			made := templates.Made{Isolation: isolation}
			if err := templates.CheckName(args[1]); err != nil {
				return cli.Usage("", "serve template add: %v", err)
			}
			if isolation != "" && !slices.Contains(launch.Isolations(), isolation) {
				return cli.Usage("one of: "+strings.Join(launch.Isolations(), ", "),
					"serve template add: --isolation %q is not known", isolation)
			}
			if forbid != "" {
				file, err := a.Typed(forbid)
				if err != nil {
					return err
				}
				text, err := launch.ReadMost(file, config.MaxFile)
				if err != nil {
					return fmt.Errorf("serve template add: %w", err)
				}
				if err := policyset.CheckNarrow([]api.CedarFile{{Name: forbid, Text: string(text)}}); err != nil {
					return fmt.Errorf("serve template add: %w", err)
				}
				made.Forbid = string(text)
			}
			images, err := (&engine{a: a}).images(args[0])
			if err != nil {
				return err
			}
			i, err := images.Get(cmd.Context(), args[2], a.Slow)
			if err != nil {
				return err
			}
			made.Image = i.ID
			t, err := store.Put(args[1], made, true, a.recordTemplate(cmd.Context(), args[0], "add"))
			if err != nil {
				return fmt.Errorf("serve template add: %w", err)
			}
			a.Line("%s %s", t.ID, i.ID)
			return nil
		},
	}
	c.Flags().StringVar(&forbid, "forbid", "", "a Cedar `FILE` whose statements forbid, for every sandbox of it")
	c.Flags().StringVar(&isolation, "isolation", "", "the `LEVEL` that its sandboxes have, instead of the tenant's")
	return c
}

// templates are those of a tenant that there is.
func (a *Commands) templates(of, tenant string) (*templates.Store, error) {
	r, err := a.tenants()
	if err != nil {
		return nil, err
	}
	if _, err := r.Named(tenant); err != nil {
		return nil, noTenant(of, tenant, "cloister serve tenant list")
	}
	return templates.Open(r.Home(tenant)), nil
}

func (a *Commands) recordTemplate(ctx context.Context, tenant, action string) func(templates.Template) error {
	return func(t templates.Template) error {
		r, err := a.tenants()
		if err != nil {
			return err
		}
		return (&engine{a: a}).Record(ctx, serve.Place{Tenant: tenant, Dir: r.Home(tenant)},
			serve.Act{Kind: serve.ActTemplate, Action: action, Resource: t.Name + " " + t.Made.Image})
	}
}

func (a *Commands) serveTemplateList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list TENANT", Short: "List a tenant's templates", Args: cli.Args(1, 1), ValidArgsFunction: a.completeTenants,
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := a.templates("serve template list", args[0])
			if err != nil {
				return err
			}
			list, err := store.List()
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(append([]templates.Template{}, list...))
			}
			rows := [][]string{{"NAME", "ID", "IMAGE", "ISOLATION", "CREATED"}}
			for _, t := range list {
				rows = append(rows, []string{t.Name, t.ID, t.Made.Image, t.Made.Isolation, t.Created.Local().Format(time.DateTime)})
			}
			a.Table(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func (a *Commands) serveTemplateRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove TENANT NAME", Short: "Remove a template; its sandboxes and its image stay", Args: cli.Args(2, 2),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.templates("serve template remove", args[0])
			if err == nil {
				err = store.Remove(args[1], true, a.recordTemplate(cmd.Context(), args[0], "remove"))
			}
			if errors.Is(err, templates.ErrNone) {
				return cli.Hinted(fmt.Errorf("serve template remove: %s has no template %q", args[0], args[1]),
					"cloister serve template list "+args[0])
			}
			return err
		},
	}
}
