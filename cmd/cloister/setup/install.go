package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cloister/agent"
	"cloister/cmd/cloister/cli"

	"golang.org/x/sys/unix"
)

// find looks for an agent's program, and installs it where the person says so.
func (a *Commands) find(ctx context.Context, who agent.Agent, install bool) error {
	if a.onPath(who.Argv[0]) {
		return nil
	}
	if who.Package == "" || !install && !a.canAsk() {
		a.Notice("%s is not installed: %s", who.Argv[0], who.Install)
		return nil
	}
	if !install && !a.agreed(fmt.Sprintf("%s is not installed. Install it now (%s)?", who.Argv[0], who.Install), true) {
		return nil
	}
	return a.install(ctx, who)
}

// install has npm install an agent: where npm puts programs, if the person may write
// there, or else below ~/.local.
func (a *Commands) install(ctx context.Context, who agent.Agent) error {
	if !a.onPath("npm") {
		err := fmt.Errorf("setup: %s comes by npm, which is not installed", who.Name)
		return cli.Hinted(err, "install Node.js with npm, then again")
	}
	args, bin := []string{"install", "--global", "--no-audit", "--no-fund", "--loglevel=error"}, ""
	asked, err := a.Program(ctx, "npm", "prefix", "--global")
	if err != nil {
		return fmt.Errorf("setup: npm: %w", err)
	}
	prefix, err := asked.Output()
	if err != nil {
		return fmt.Errorf("setup: npm prefix: %w", err)
	}
	at := strings.TrimSpace(string(prefix))
	if unix.Access(filepath.Join(at, "lib"), unix.W_OK) != nil && unix.Access(at, unix.W_OK) != nil {
		local := filepath.Join(a.Home(), ".local")
		args, bin = append(args, "--prefix", local), filepath.Join(local, "bin")
	}
	a.Notice("npm %s %s", strings.Join(args, " "), who.Package)
	c, err := a.Program(ctx, "npm", append(args, who.Package)...)
	if err != nil {
		return fmt.Errorf("setup: npm: %w", err)
	}
	c.Stdout, c.Stderr = a.Stderr, a.Stderr
	if err := c.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("it ended with status %d", exit.ExitCode())
		}
		err = fmt.Errorf("setup: npm could not install %s: %w", who.Package, err)
		return cli.Hinted(err, "what npm says above; by hand: "+who.Install)
	}
	if bin != "" && !slices.Contains(filepath.SplitList(a.Env.Get("PATH")), bin) {
		a.Notice("add %s to your PATH: programs are found there from your next login on, or: export PATH=%s:$PATH", bin, bin)
		a.Env["PATH"] = bin + string(os.PathListSeparator) + a.Env.Get("PATH")
	}
	return nil
}
