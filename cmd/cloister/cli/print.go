package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"cloister/internal/exactjson"
	"cloister/internal/termsafe"
	"cloister/ui/pair"

	"golang.org/x/term"
)

// Notice tells the person something beside the answer.
func (a *App) Notice(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintln(a.Stderr, a.Printable(a.Stderr, fmt.Sprintf(format, args...)))
	}
}

func (a *App) Notices(list []string) {
	for _, n := range list {
		a.Notice("%s", n)
	}
}

// JSON prints one document, whatever bytes its strings have.
func (a *App) JSON(v any) error {
	text, err := exactjson.Document(v)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	a.Out.Write(termsafe.JSON(text))
	return nil
}

// Line prints one line of the answer. What cannot be printed as it is, because
// a terminal would obey it, is escaped.
func (a *App) Line(format string, args ...any) {
	a.Out.WriteString(a.Printable(a.Stdout, fmt.Sprintf(format, args...)))
	a.Out.WriteByte('\n')
}

// Table prints rows in columns, two spaces apart.
func (a *App) Table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(a.Printable(a.Stdout, cell))))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			cell = a.Printable(a.Stdout, cell)
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
			}
		}
		a.Line("%s", strings.TrimRight(b.String(), " "))
	}
}

// Printable escapes what a terminal would obey or would not show: control
// characters, direction marks, invisible spaces. Tabs and spaces stay.
func (a *App) Printable(to *os.File, s string) string {
	cells, ascii := strings.Split(s, "\t"), a.ASCII(to)
	for i, cell := range cells {
		if cells[i] = termsafe.Text(cell); ascii {
			cells[i] = termsafe.ASCII(cells[i])
		}
	}
	return strings.Join(cells, "\t")
}

// Paint colours a word for a person at a terminal.
func (a *App) Paint(word string, code int) string {
	if a.Env.Get("NO_COLOR") != "" || a.Env.Get("TERM") == "dumb" || !term.IsTerminal(int(a.Stdout.Fd())) {
		return word
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, word)
}

// SGR codes.
const (
	Red    = 31
	Green  = 32
	Yellow = 33
)

// Clip is what of a long text stands in a list; the detail has all of it.
func Clip(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Count writes a number of things.
func Count[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Text prints lines, on a terminal with what it would obey escaped. Elsewhere they are
// bytes: a patch of a file with carriage returns is one.
func (a *App) Text(s string) {
	if !term.IsTerminal(int(a.Stdout.Fd())) {
		a.Out.WriteString(s)
		return
	}
	for line := range strings.Lines(s) {
		a.Line("%s", strings.TrimSuffix(line, "\n"))
	}
}

func Unless(not bool, text string) string {
	if not {
		return ""
	}
	return text
}

// Age writes a length of time in its largest unit.
func Age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// ASCII reports whether a file is a terminal that is said to show ASCII alone. One of
// which nothing is said is taken to show more, as most do.
func (a *App) ASCII(to *os.File) bool {
	said := a.Env.Get("LC_ALL") + a.Env.Get("LC_CTYPE") + a.Env.Get("LANG")
	return said != "" && !pair.UTF8(a.Env.Get) && term.IsTerminal(int(to.Fd()))
}

func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// SizeText is a number of bytes for a person.
func SizeText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < len("KMGT")-1; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[i])
}

func DateOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format(time.DateTime)
}
