package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/term"
)

// edit opens a file in the person's editor and returns when that has ended.
func (a *app) edit(ctx context.Context, what, file string) error {
	editor := strings.Fields(cmp.Or(a.env.get("VISUAL"), a.env.get("EDITOR")))
	if len(editor) == 0 {
		if !term.IsTerminal(int(a.stdin.Fd())) || !term.IsTerminal(int(a.stdout.Fd())) {
			return hinted(fmt.Errorf("edit %s: there is no terminal for an editor", what), "edit "+file, "or name an editor in EDITOR")
		}
		editor = []string{"vi"}
	}
	e := exec.CommandContext(ctx, editor[0], append(editor[1:], file)...)
	e.Stdin, e.Stdout, e.Stderr = a.stdin, a.stdout, a.stderr
	err := e.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return hinted(fmt.Errorf("edit %s: %w", what, err), "name another editor in EDITOR")
	}
	if err != nil {
		return fmt.Errorf("edit %s: %s: %w", what, editor[0], err)
	}
	return nil
}
