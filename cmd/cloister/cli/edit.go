package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"golang.org/x/term"
)

// Edit opens a file in the person's editor and returns when that has ended.
func (a *App) Edit(ctx context.Context, what, file string) error {
	editor := strings.Fields(cmp.Or(a.Env.Get("VISUAL"), a.Env.Get("EDITOR")))
	if len(editor) == 0 {
		if !term.IsTerminal(int(a.Stdin.Fd())) || !term.IsTerminal(int(a.Stdout.Fd())) {
			return Hinted(fmt.Errorf("edit %s: there is no terminal for an editor", what), "edit "+file,
				"or name an editor in EDITOR")
		}
		editor = []string{"vi"}
	}
	e, err := a.Program(ctx, editor[0], append(editor[1:], file)...)
	if err != nil {
		return Hinted(fmt.Errorf("edit %s: %w", what, err),
			append(HintsOf(err), "edit "+file+", or name another editor in EDITOR")...)
	}
	e.Stdin, e.Stdout, e.Stderr = a.Stdin, a.Stdout, a.Stderr
	if err := e.Run(); err != nil {
		return fmt.Errorf("edit %s: %s: %w", what, editor[0], err)
	}
	return nil
}
