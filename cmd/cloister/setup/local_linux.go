package setup

import (
	"context"
	"fmt"

	"cloister/cmd/cloister/cli"
	"cloister/sandbox/localuser"
)

// setupLocal makes what the user level needs of root, or removes it.
func (a *Commands) setupLocal(ctx context.Context, names []string, undo bool) error {
	if a.UID != 0 {
		return cli.Hinted(fmt.Errorf("setup local-user: it makes an account and a service, for which it must be root"),
			"sudo cloister setup local-user")
	}
	s := localuser.Setup{Self: "/proc/self/exe", Say: a.Line,
		Run: func(ctx context.Context, name string, args ...string) error {
			c, err := a.Program(ctx, name, args...)
			if err != nil {
				return err
			}
			if text, err := c.CombinedOutput(); err != nil {
				return fmt.Errorf("setup local-user: %s: %w: %s", name, err, text)
			}
			return nil
		}}
	if undo {
		return s.Undo(ctx)
	}
	if who := a.Env.Get("SUDO_USER"); len(names) == 0 && who != "" && who != "root" {
		names = []string{who}
	}
	return s.Install(ctx, names)
}
