package escape

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Answer is what one try came to, as it is written on standard output.
type Answer struct {
	Case  string `json:"case"`
	Try   string `json:"try"`
	State State  `json:"state"`
	Text  string `json:"text"`
}

// State is what an answer means.
type State string

// The states. Odd is an answer that proves nothing.
const (
	Held State = "held"
	Open State = "open"
	Odd  State = "odd"
)

func answer(c Case, t Try, err error) Answer {
	a := Answer{Case: c.ID, Try: t.Name, State: Odd, Text: text(err)}
	held := t.Held
	if held == nil {
		held = Denied()
	}
	switch {
	case err == nil:
		a.State = Open
	case Matches(err, held):
		a.State = Held
	case Matches(err, t.Open):
		a.State = Open
	}
	return a
}

// text is an error as a person knows it: the kernel's name where it has one.
func text(err error) string {
	if err == nil {
		return "done"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errno != 0 {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, err.Error())
}

// Attempt makes the tries of one case and writes the answers. Outside, those
// without a control are not made: they would change the host.
func Attempt(w io.Writer, c Case, in Inside) error {
	enc := json.NewEncoder(w)
	for _, t := range c.Tries(in) {
		a := Answer{Case: c.ID, Try: t.Name, State: Odd, Text: "not made outside"}
		if !in.Control || t.Control != ByNobody {
			a = answer(c, t, t.Do())
		}
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("tell the answer: %w", err)
		}
	}
	return nil
}

// AttemptAll makes the tries of many cases, each in a process of its own, so
// that one that is killed or hangs is one that is missing.
func AttemptAll(ctx context.Context, w io.Writer, self string, cases []Case) error {
	out := bufio.NewWriter(w)
	defer out.Flush()
	for _, c := range cases {
		limit := 90 * time.Second
		if c.Slow > 0 {
			limit = max(limit, time.Duration(c.Slow)*time.Second)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		p := exec.CommandContext(ctx, self, "attempt", c.ID)
		p.WaitDelay = time.Second
		text, err := p.CombinedOutput()
		cancel()
		if _, werr := out.Write(text); werr != nil {
			return fmt.Errorf("tell the answers: %w", werr)
		}
		if err != nil {
			b, jerr := json.Marshal(Answer{Case: c.ID, Try: "(the process)", State: Odd, Text: err.Error()})
			if jerr != nil {
				return fmt.Errorf("tell the answer: %w", jerr)
			}
			fmt.Fprintf(out, "\n%s\n", b)
		}
	}
	return nil
}

// ReadAnswers reads what AttemptAll wrote. Lines that are none are a program's
// own words.
func ReadAnswers(text string) (answers []Answer, other string) {
	var rest strings.Builder
	for line := range strings.Lines(text) {
		var a Answer
		if json.Unmarshal([]byte(line), &a) == nil && a.Case != "" {
			answers = append(answers, a)
		} else if strings.TrimSpace(line) != "" {
			rest.WriteString(line)
		}
	}
	return answers, rest.String()
}
