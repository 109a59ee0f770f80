package server

import (
	"context"
	"fmt"
	"os"

	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/serve/tenants"

	"github.com/spf13/cobra"
)

func (a *Commands) serveTenantConfigure() *cobra.Command {
	return &cobra.Command{
		Use:               "configure NAME FILE",
		Short:             "Give a tenant of several servers another configuration, on all of them",
		Args:              cli.Args(2, 2),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.tenants()
			if err != nil {
				return err
			}
			if !r.Kept() {
				return cli.Usage("cloister serve tenant add prints the file, which is read as it is",
					"serve tenant configure: it is for --database URL")
			}
			file, err := a.Typed(args[1])
			if err != nil {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("serve tenant configure: %w", err)
			}
			if _, err := config.Parse(file, text); err != nil {
				return err
			}
			return a.configured(cmd.Context(), r, args[0], string(text))
		},
	}
}

func (a *Commands) configured(ctx context.Context, r *tenants.Register, name, text string) error {
	err := r.Configure(name, text, func() error {
		return a.recordTenant(ctx, r, name, audit.TenantAdd, name+" configured")
	})
	if err != nil {
		return fmt.Errorf("serve tenant configure %s: %w", name, err)
	}
	return nil
}
