package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"golang.org/x/term"
)

// edit opens a file in the person's editor and returns when that has ended.
func (a *app) edit(ctx context.Context, what, file string) error {
	editor := strings.Fields(cmp.Or(a.env.get("VISUAL"), a.env.get("EDITOR")))
	if len(editor) == 0 {
		if !term.IsTerminal(int(a.stdin.Fd())) || !term.IsTerminal(int(a.stdout.Fd())) {
			return hinted(fmt.Errorf("edit %s: there is no terminal for an editor", what), "edit "+file,
				"or name an editor in EDITOR")
		}
		editor = []string{"vi"}
	}
	e, err := a.program(ctx, editor[0], append(editor[1:], file)...)
	if err != nil {
		return hinted(fmt.Errorf("edit %s: %w", what, err),
			append(hintsOf(err), "edit "+file+", or name another editor in EDITOR")...)
	}
	e.Stdin, e.Stdout, e.Stderr = a.stdin, a.stdout, a.stderr
	if err := e.Run(); err != nil {
		return fmt.Errorf("edit %s: %s: %w", what, editor[0], err)
	}
	return nil
}
