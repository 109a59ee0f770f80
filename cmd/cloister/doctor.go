package main

import (
	"context"
	"fmt"

	"cloister/cmd/cloister/cli"
	"cloister/guardian/folders"
	"cloister/session/doctor"

	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine can guarantee, and what would fix the rest",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := a.diagnose(cmd.Context())
			if asJSON {
				if err := a.JSON(d); err != nil {
					return err
				}
			} else {
				a.tellDiagnosis(d)
			}
			if !d.OK {
				return &cli.StatusError{Status: cli.StatusFailed}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) diagnose(ctx context.Context) doctor.Diagnosis {
	return doctor.Options{
		Dirs: a.Dirs, Socket: folders.Socket, Levels: a.drivers(), Version: cli.Version(), Hints: cli.HintsOf,
		Policy: func() (string, []string, error) {
			l, err := a.OnDisk()
			if err != nil {
				return "", nil, err
			}
			return l.Snapshot().Digest(), l.Notices(), nil
		},
	}.Examine(ctx)
}

func (a *app) tellDiagnosis(d doctor.Diagnosis) {
	colours := map[string]int{"ok": cli.Green, "warn": cli.Yellow, "fail": cli.Red, "enforced": cli.Green,
		"partial": cli.Yellow,
		"absent":  cli.Red}
	tell := func(word, what, detail, fix string) {
		a.Out.WriteString(a.Paint(fmt.Sprintf("%-8s", word), colours[word]))
		a.Line("  %-34s  %s", what, detail)
		if fix != "" && word != "ok" && word != "enforced" {
			a.Line("%10sfix: %s", "", fix)
		}
	}
	for _, c := range d.Checks {
		tell(string(c.Status), c.Title, c.Detail, c.Fix)
	}
	for _, i := range d.Isolation {
		a.Line("")
		if i.Available {
			a.Line("isolation %s: available", i.Name)
		} else {
			a.Line("isolation %s: not available: %s", i.Name, i.Reason)
		}
		for _, g := range i.Guarantees {
			tell(g.Level, g.Name, g.By+"; "+g.Evidence, g.Fix)
		}
	}
	if level, _ := a.automatic(); level != "auto" {
		a.Line("")
		a.Line("isolation auto: %s", level)
	}
}
