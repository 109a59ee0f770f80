// Package patch writes the changes of a workspace as text, as git diff shows them.
//
// The promise: text that a terminal would obey is escaped by the caller's printer, and
// what is not shown (a binary or very large file) is named. The output of [Write] with
// text files alone is a patch that git apply takes.
//
// It reads files through the stack that found the changes, and writes to one writer.
//
// Most readers want [Write].
package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"cloister/state/layers"
)

// maxText bounds a file that is shown line by line, in bytes.
const maxText = 4 << 20

// Write writes all changes.
func Write(w io.Writer, stack *layers.Stack, changes []layers.Change) error {
	for _, c := range changes {
		if c.Implied {
			continue
		}
		if err := writeOne(w, stack, c); err != nil {
			return fmt.Errorf("show %s: %w", c.Path, err)
		}
	}
	return nil
}

func writeOne(w io.Writer, stack *layers.Stack, c layers.Change) error {
	var out bytes.Buffer
	from, to := c.Path, c.Path
	if c.From != "" {
		from = c.From
	}
	fmt.Fprintf(&out, "diff --git %s %s\n", Quote("a/"+from), Quote("b/"+to))
	header(&out, c)
	switch {
	case c.Op == layers.Mode, c.Op == layers.Renamed:
	case c.Old.Kind == layers.Dir || c.New.Kind == layers.Dir:
	default:
		if err := content(&out, stack, c, from, to); err != nil {
			return err
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

func header(out *bytes.Buffer, c layers.Change) {
	switch {
	case c.Op == layers.Renamed:
		if c.Old.Mode != c.New.Mode {
			fmt.Fprintf(out, "old mode %s\nnew mode %s\n", mode(c.Old), mode(c.New))
		}
		fmt.Fprintf(out, "similarity index 100%%\nrename from %s\nrename to %s\n", Quote(c.From), Quote(c.Path))
	case c.Op == layers.Added:
		fmt.Fprintf(out, "new file mode %s\n", mode(c.New))
	case c.Op == layers.Deleted:
		fmt.Fprintf(out, "deleted file mode %s\n", mode(c.Old))
	case mode(c.Old) != mode(c.New):
		fmt.Fprintf(out, "old mode %s\nnew mode %s\n", mode(c.Old), mode(c.New))
	}
}

// mode is what git calls the mode of an entry.
func mode(n layers.Node) string {
	switch n.Kind {
	case layers.Link:
		return "120000"
	case layers.Dir:
		return fmt.Sprintf("040%03o", n.Mode&0o777)
	case layers.File:
		return fmt.Sprintf("100%03o", n.Mode&0o777)
	case layers.Special:
	}
	return "special"
}

func content(out *bytes.Buffer, stack *layers.Stack, c layers.Change, from, to string) error {
	if c.New.Kind == layers.Special || c.Old.Kind == layers.Special {
		fmt.Fprintf(out, "Special files %s and %s differ\n", Quote("a/"+from), Quote("b/"+to))
		return nil
	}
	old, now, bothText, err := Texts(stack, c)
	if err != nil {
		return err
	}
	before, after := Quote("a/"+from), Quote("b/"+to)
	if !c.Old.Exists() {
		before = "/dev/null"
	}
	if !c.New.Exists() {
		after = "/dev/null"
	}
	if !bothText {
		fmt.Fprintf(out, "Binary files %s and %s differ\n", before, after)
		return nil
	}
	out.WriteString(udiff.Unified(before, after, old, now))
	return nil
}

// Texts are a change's file or link before and now. ok says that both are texts of a size
// that is shown.
func Texts(stack *layers.Stack, c layers.Change) (old, now string, ok bool, err error) {
	old, oldText, err := text(c.Old, func() (*os.File, error) { return stack.OpenOld(c) })
	if err != nil {
		return "", "", false, err
	}
	now, nowText, err := text(c.New, func() (*os.File, error) { return stack.OpenNew(c) })
	return old, now, oldText && nowText && c.Old.Kind != layers.Special && c.New.Kind != layers.Special, err
}

// text reads a file or the target of a link. It says no for what is no text, or too much.
func text(n layers.Node, open func() (*os.File, error)) (string, bool, error) {
	switch {
	case !n.Exists():
		return "", true, nil
	case n.Kind == layers.Link:
		return n.Target, true, nil
	case n.Kind != layers.File:
		return "", false, nil
	case n.Size > maxText:
		return "", false, nil
	}
	f, err := open()
	if err != nil {
		return "", false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", false, err
	}
	return string(b), len(b) <= maxText && !bytes.Contains(b[:min(len(b), 8000)], []byte{0}), nil
}

// Quote writes a name as git does: as it is, or in quotes with what is unusual escaped.
func Quote(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == '"' || r == '\\' || r == 0x7f || r == 0xfffd
	}) {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// Stat writes a line for each change with the lines that were added and removed.
func Stat(w io.Writer, stack *layers.Stack, changes []layers.Change) error {
	width, shown := 0, 0
	for _, c := range changes {
		if !c.Implied {
			width = max(width, len(label(c)))
			shown++
		}
	}
	var plus, minus int
	for _, c := range changes {
		if c.Implied {
			continue
		}
		p, m, what, err := Count(stack, c)
		if err != nil {
			return fmt.Errorf("show %s: %w", c.Path, err)
		}
		plus, minus = plus+p, minus+m
		if what == "" {
			what = strconv.Itoa(p+m) + " " + strings.Repeat("+", min(p, 40)) + strings.Repeat("-", min(m, 40))
		}
		if _, err := fmt.Fprintf(w, " %-*s | %s\n", width, label(c), what); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, " %d files changed, %d insertions(+), %d deletions(-)\n", shown, plus, minus)
	return err
}

func label(c layers.Change) string {
	if c.From != "" {
		return Quote(c.From) + " => " + Quote(c.Path)
	}
	return Quote(c.Path)
}

// Count counts the lines that a change added and removed. what says it in words where
// there are none to count.
func Count(stack *layers.Stack, c layers.Change) (plus, minus int, what string, err error) {
	if c.Op == layers.Renamed || c.Op == layers.Mode {
		return 0, 0, "0", nil
	}
	if c.Old.Kind == layers.Dir || c.New.Kind == layers.Dir {
		return 0, 0, "folder", nil
	}
	var out bytes.Buffer
	if err := content(&out, stack, c, c.Path, c.Path); err != nil {
		return 0, 0, "", err
	}
	if strings.HasPrefix(out.String(), "Binary") || strings.HasPrefix(out.String(), "Special") {
		return 0, 0, fmt.Sprintf("Bin %d -> %d bytes", c.Old.Size, c.New.Size), nil
	}
	for i, line := range strings.Split(out.String(), "\n") {
		switch {
		case i < 2 || line == "":
		case line[0] == '+':
			plus++
		case line[0] == '-':
			minus++
		}
	}
	return plus, minus, "", nil
}
