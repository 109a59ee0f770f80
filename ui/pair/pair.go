// Package pair pairs a phone, at the terminal of the computer: it shows the code, waits
// for the phone, and has the person compare a number.
//
// The promise: nothing is paired unless the person says so, of the number that the
// guardian computed; a code that was not used is taken back.
//
// It holds no key and judges no device (room ui/phone does).
//
// Most readers want [Run].
package pair

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"rsc.io/qr"

	"cloister/api"
	"cloister/internal/hint"
)

// Guardian is what pairs.
type Guardian interface {
	Pair(ctx context.Context, in api.PairRequest) (api.Pairing, error)
	Pairing(ctx context.Context) (api.Pairing, error)
	FinishPairing(ctx context.Context, code string) (api.Device, error)
}

// Screen is the person's terminal.
type Screen struct {
	In       io.Reader
	Out, Err io.Writer
	Columns  int
	UTF8     bool
}

// Run pairs one phone.
func Run(ctx context.Context, g Guardian, req api.PairRequest, s Screen) (api.Device, error) {
	p, err := g.Pair(ctx, req)
	if err != nil {
		return api.Device{}, err
	}
	defer func() { _, _ = g.FinishPairing(context.WithoutCancel(ctx), "") }() // where it was not agreed to
	fmt.Fprintf(s.Out, "the tunnel leads to http://%s, and passes the Host on as it is\n", p.At)
	if picture := Picture(p.URL); s.UTF8 && picture != nil && len(picture)*2 <= s.Columns {
		fmt.Fprintln(s.Out, strings.Join(picture, "\n"))
	} else {
		fmt.Fprintln(s.Err, "this terminal shows no QR code: bring the address to the phone another way")
	}
	if strings.HasPrefix(p.URL, "https:") { // and not this machine itself
		fmt.Fprintln(s.Err, "whoever ends the tunnel's TLS serves the phone its page, and could answer as the phone: "+
			"docs/window.md")
	}
	fmt.Fprintf(s.Out, "%s\nwaiting for the phone until %s\n", p.URL, p.ExpiresAt.Local().Format(time.TimeOnly))
	if p, err = came(ctx, g, p); err != nil {
		return api.Device{}, err
	}
	fmt.Fprintf(s.Err, "Does the phone show %s? [y/N] ", p.Code)
	word, err := line(ctx, s.In)
	if err != nil {
		return api.Device{}, err
	}
	if word != "y" && word != "yes" {
		return api.Device{}, errors.New("pair: not agreed to")
	}
	return g.FinishPairing(ctx, p.Code)
}

// line is what the person says; no answer is "". Ctrl-C ends ctx, and not the reading of a
// terminal: that ends with the process.
func line(ctx context.Context, in io.Reader) (string, error) {
	said := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(in).ReadString('\n')
		said <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case word := <-said:
		return word, nil
	case <-ctx.Done():
		return "", fmt.Errorf("pair: %w", context.Cause(ctx))
	}
}

// came waits for the phone.
func came(ctx context.Context, g Guardian, p api.Pairing) (api.Pairing, error) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for p.State == "device" {
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("pair: %w", context.Cause(ctx))
		case <-tick.C:
		}
		var err error
		if p, err = g.Pairing(ctx); err != nil {
			return p, err
		}
	}
	if p.Code == "" {
		return p, hint.With(errors.New("pair: no phone came, or two did"), "make a new code: cloister window pair")
	}
	return p, nil
}

// UTF8 reports whether a terminal is said to show more than ASCII; get reads the environment.
func UTF8(get func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(get(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// Picture draws a QR code, two of its rows in each line: dark on light, whatever the
// terminal's colours are. It is nil for what no code holds.
func Picture(text string) []string {
	const margin = 2
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return nil
	}
	var out []string
	for y := -margin; y < code.Size+margin; y += 2 {
		var line strings.Builder
		for x := -margin; x < code.Size+margin; x++ {
			line.WriteString(halves[[2]bool{code.Black(x, y), code.Black(x, y+1)}])
		}
		out = append(out, "\x1b[30;107m"+line.String()+"\x1b[0m")
	}
	return out
}

// halves are the characters for two rows, the upper and the lower.
var halves = map[[2]bool]string{{false, false}: " ", {true, false}: "▀", {false, true}: "▄", {true, true}: "█"}
