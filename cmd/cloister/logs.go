package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/internal/termsafe"
	"cloister/internal/xdg"
	"cloister/session/registry"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "logs [-f] NAME",
		Short: "Print what a cloister in the background wrote",
		Long: `Print what the command of a cloister in the background wrote, byte for byte;
of one with a terminal, the last 4 MiB at least.
What it asked for is in the audit: cloister audit tail --session NAME.`,
		Args:              cli.Args(1, 1),
		ValidArgsFunction: a.CompleteSessions(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.logs(cmd.Context(), args[0], follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the cloister ends")
	return c
}

// outputFile is where a cloister in the background writes.
func outputFile(d xdg.Dirs, name string) string {
	return filepath.Join(d.State, "logs", name+".log")
}

func (a *app) logs(ctx context.Context, name string, follow bool) error {
	if err := registry.CheckName(name); err != nil {
		return cli.Usage("cloister list -a shows the names", "logs: %v", err)
	}
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(outputFile(d, name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Hinted(fmt.Errorf("logs: no cloister %q wrote in the background", name),
			"what a cloister asked for: cloister audit tail --session "+name, "cloister list -a shows every cloister")
	}
	if err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	defer f.Close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A file or a pipe gets every byte; a terminal, what a terminal may get.
	var sink io.Writer = a.Out
	if term.IsTerminal(int(a.Stdout.Fd())) {
		sink = termsafe.New(a.Out)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		// Asked before reading: what was written until the end is read then.
		over := !follow || !a.lives(ctx, name)
		if err := rewound(f); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
		if _, err := io.Copy(sink, f); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
		if err := a.Out.Flush(); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// rewound goes on at the end of a log that was cut since it was read.
func rewound(f *os.File) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() >= at {
		return err
	}
	_, err = f.Seek(0, io.SeekEnd)
	return err
}

// lives reports whether a cloister of that name goes on. With the guardian gone
// no one knows; then it counts as living.
func (a *app) lives(ctx context.Context, name string) bool {
	c, err := a.Dial(ctx)
	if err != nil {
		return true
	}
	defer c.Close()
	names, err := cli.LiveNames(ctx, c)
	return err != nil || slices.Contains(names, name)
}
