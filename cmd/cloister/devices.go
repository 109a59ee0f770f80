package main

import (
	"os/signal"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/ui/pair"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// windowCommand opens the window; below it are the phones that reach its questions.
func (a *app) windowCommand() *cobra.Command {
	c := a.guardianOpen()
	c.Use = "window"
	c.AddCommand(a.windowPair(), a.windowDevices(), a.windowUnpair())
	return c
}

func (a *app) windowPair() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use:   "pair [NAME]",
		Short: "Pair a phone, which then sees what waits for an answer, and answers",
		Long: `Pair a phone, which then sees what waits for an answer, and answers.

The phone comes over a tunnel of your own, at an https address that leads to the port
which this prints. It shows a QR code that pairs one device, once, within two minutes,
after you compared a number on both screens. Each answer is signed by a key that the
phone's browser keeps. docs/window.md says what whoever serves the tunnel could do.`,
		Example: "  cloister window pair --url https://my-tunnel.example\n  cloister window pair tablet",
		Args:    counted(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !term.IsTerminal(int(a.stdin.Fd())) || !term.IsTerminal(int(a.stdout.Fd())) {
				return wrongWords("run it in a terminal", "window pair: a person compares a number")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			g, err := a.ensure(ctx)
			if err != nil {
				return err
			}
			defer g.Close()
			columns, _, _ := term.GetSize(int(a.stdout.Fd())) // none have no room for a picture
			d, err := pair.Run(ctx, g, api.PairRequest{Name: append(args, "phone")[0], URL: at},
				pair.Screen{In: a.stdin, Out: a.stdout, Err: a.stderr, Columns: columns, UTF8: pair.UTF8(a.env.get)})
			if err == nil {
				a.line("%s is paired (%s)", d.Name, d.Key)
			}
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVar(&at, "url", "", "the `ADDRESS` of your tunnel; that of before when absent")
	return c
}

func (a *app) windowDevices() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "List the phones that are paired",
		Args:  counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.ensure(cmd.Context())
			if err != nil {
				return err
			}
			defer g.Close()
			list, err := g.Devices(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(list)
			}
			if len(list.Devices) == 0 {
				a.notice("no device is paired, and nothing listens")
				return nil
			}
			rows := [][]string{{"NAME", "KEY", "PAIRED", "LAST SEEN"}}
			for _, d := range list.Devices {
				added, used := d.Added.Local().Format(time.DateTime), d.Used.Local().Format(time.DateTime)
				rows = append(rows, []string{d.Name, d.Key, added, used})
			}
			a.table(rows)
			a.notice("%s leads to http://%s", list.URL, list.At)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) windowUnpair() *cobra.Command {
	return &cobra.Command{
		Use:   "unpair NAME",
		Short: "Forget a phone: its answers are refused from then on",
		Args:  counted(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := a.ensure(cmd.Context())
			if err != nil {
				return err
			}
			defer g.Close()
			d, err := g.Unpair(cmd.Context(), args[0])
			if err == nil {
				a.line("%s is forgotten (%s)", d.Name, d.Key)
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				_ = a.withGuardian(cmd.Context(), func(c *client.Client) error { // Tab is no place for an error
					list, err := c.Devices(cmd.Context())
					for _, d := range list.Devices {
						names = append(names, d.Name+"\t"+d.Key)
					}
					return err
				})
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
