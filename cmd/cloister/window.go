package main

import (
	"context"
	"fmt"
	"html"
	"path/filepath"
	"runtime"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/phones"
	"cloister/internal/durable"
	"cloister/internal/xdg"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) guardianOpen() *cobra.Command {
	var asJSON, noBrowser bool
	c := &cobra.Command{
		Use:   "open",
		Short: "Open the window: see what every cloister does, and answer, in a browser",
		Long: `Open the window: see what every cloister does, and answer, in a browser.

It prints an address on 127.0.0.1 that lets one browser in, once, within a
minute. On a terminal of a graphical desktop it opens the browser too.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.Ensure(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			link, err := client.Link(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(link)
			}
			a.Line("%s", link.URL)
			if noBrowser || !a.desktop() {
				return nil
			}
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			if err := a.browse(cmd.Context(), d, link.URL); err != nil {
				a.Notice("no browser could be opened (%v): open the address yourself, within a minute", err)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	return c
}

// windowCommand opens the window; below it are the phones that reach its questions.
func (a *app) windowCommand() *cobra.Command {
	c := a.guardianOpen()
	c.Use, c.Annotations = "window", map[string]string{cli.ActsAlone: "yes"}
	c.AddCommand(phones.Commands(&phones.Shell{
		In: a.Stdin, Out: a.Stdout, Err: a.Stderr, Env: a.Env.Get, Ensure: a.Ensure, Line: a.Line, Notice: a.Notice,
		Table: a.Table, JSON: a.JSON, Args: cli.Args, Wrong: cli.Usage, Offer: a.WithGuardian,
	})...)
	return c
}

// desktop reports whether a person sits here who has a browser.
func (a *app) desktop() bool {
	if !term.IsTerminal(int(a.Stdout.Fd())) {
		return false
	}
	return runtime.GOOS == "darwin" || a.Env.Get("DISPLAY") != "" || a.Env.Get("WAYLAND_DISPLAY") != ""
}

// browse has the desktop open the address. It stands in a file of this user's
// alone and not among the words of a process, which every user may read.
func (a *app) browse(ctx context.Context, d xdg.Dirs, url string) error {
	path := filepath.Join(d.Runtime, "open.html")
	text := fmt.Sprintf("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%s\"><title>Cloister</title>\n",
		html.EscapeString(url))
	if err := durable.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := a.Program(ctx, opener, path)
	if err != nil {
		return err
	}
	return c.Run()
}
