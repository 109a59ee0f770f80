// Package phones is the commands about paired phones.
//
// The promise: what they print and answer goes by the shell that they are part of.
//
// It pairs nothing itself: ui/pair and the guardian do.
//
// Most readers want [Commands].
package phones

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/ui/pair"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Shell is what the commands have of the one that they are part of.
type Shell struct {
	In, Out      *os.File
	Err          io.Writer
	Env          func(string) string
	Ensure       func(context.Context) (*client.Client, error)
	Line, Notice func(format string, args ...any)
	Table        func([][]string)
	JSON         func(any) error
	Args         func(least, most int) cobra.PositionalArgs
	Wrong        func(advice, format string, args ...any) error // the words are wrong
	Offer        func(context.Context, func(*client.Client) error) error
}

// Commands are pair, devices and unpair.
func Commands(a *Shell) []*cobra.Command {
	return []*cobra.Command{a.windowPair(), a.windowDevices(), a.windowUnpair()}
}

func (a *Shell) windowPair() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use:   "pair [NAME]",
		Short: "Pair a phone, which then sees what waits for an answer, and answers",
		Long: `Pair a phone, which then sees what waits for an answer, and answers.

The phone comes over a tunnel of your own, at an https address that leads to the port
which this prints. It shows a QR code that pairs one device, once, within two minutes,
after you compared a number on both screens. Each answer is signed by a key that the
phone's browser keeps. Whoever ends the tunnel's TLS serves the page, and with another
one could answer as the phone: pair only over a tunnel that you trust (docs/window.md).`,
		Example: "  cloister window pair --url https://my-tunnel.example\n  cloister window pair tablet",
		Args:    a.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !term.IsTerminal(int(a.In.Fd())) || !term.IsTerminal(int(a.Out.Fd())) {
				return a.Wrong("run it in a terminal", "window pair: a person compares a number")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			g, err := a.Ensure(ctx)
			if err != nil {
				return err
			}
			defer g.Close()
			columns, _, _ := term.GetSize(int(a.Out.Fd())) // none have no room for a picture
			d, err := pair.Run(ctx, g, api.PairRequest{Name: append(args, "phone")[0], URL: at},
				pair.Screen{In: a.In, Out: a.Out, Err: a.Err, Columns: columns, UTF8: pair.UTF8(a.Env)})
			if err == nil {
				a.Line("%s is paired (%s)", d.Name, d.Key)
			}
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVar(&at, "url", "", "the `ADDRESS` of your tunnel; that of before when absent")
	return c
}

func (a *Shell) windowDevices() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "List the phones that are paired",
		Args:  a.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.Ensure(cmd.Context())
			if err != nil {
				return err
			}
			defer g.Close()
			list, err := g.Devices(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(list)
			}
			if len(list.Devices) == 0 {
				a.Notice("no device is paired, and nothing listens")
				return nil
			}
			rows := [][]string{{"NAME", "KEY", "PAIRED", "LAST SEEN"}}
			for _, d := range list.Devices {
				added, used := d.Added.Local().Format(time.DateTime), d.Used.Local().Format(time.DateTime)
				rows = append(rows, []string{d.Name, d.Key, added, used})
			}
			a.Table(rows)
			a.Notice("%s leads to http://%s", list.URL, list.At)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *Shell) windowUnpair() *cobra.Command {
	return &cobra.Command{
		Use:   "unpair NAME",
		Short: "Forget a phone: its answers are refused from then on",
		Args:  a.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := a.Ensure(cmd.Context())
			if err != nil {
				return err
			}
			defer g.Close()
			d, err := g.Unpair(cmd.Context(), args[0])
			if err == nil {
				a.Line("%s is forgotten (%s)", d.Name, d.Key)
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				_ = a.Offer(cmd.Context(), func(c *client.Client) error { // Tab is no place for an error
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
