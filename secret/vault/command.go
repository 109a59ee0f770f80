package vault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloister/internal/shellword"
	"cloister/secret"
)

const (
	// commandWithin is how long a command may take to print a secret.
	commandWithin = 30 * time.Second
	// retryAfter is how long a failure of a command stands.
	retryAfter = 5 * time.Second
	// maxOutput bounds what a command prints.
	maxOutput = 64 << 10
)

// A Runner executes a command of the host and gives what it printed on standard
// output, at most most bytes of it. It ends with its context, with all that it
// started.
type Runner func(ctx context.Context, argv []string, most int) ([]byte, error)

// A CommandError is a command that gave no secret. What it printed is not in it:
// that may be the secret.
type CommandError struct {
	Argv []string
	Why  string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("the command %s %s", shellword.Line(e.Argv...), e.Why)
}

// Hints are the words of what to do.
func (e *CommandError) Hints() []string {
	return []string{"see what it says by hand: " + shellword.Line(e.Argv...)}
}

// fetch runs a command, which errors write as shown, that prints a secret: one line
// and nothing else or, of an access key, what ParseAWS reads.
func (v *Vault) fetch(ctx context.Context, kind secret.Kind, argv, shown []string) (secret.Value, error) {
	if len(argv) == 0 || v.run == nil {
		return secret.Value{}, errors.New("no command can run here")
	}
	ctx, cancel := context.WithTimeout(ctx, commandWithin)
	defer cancel()
	out, err := v.run(ctx, argv, maxOutput+1)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return secret.Value{}, &CommandError{shown, fmt.Sprintf("did not end within %s", commandWithin)}
	case err != nil:
		return secret.Value{}, &CommandError{shown, "failed: " + err.Error()}
	case len(out) > maxOutput:
		return secret.Value{}, &CommandError{shown, fmt.Sprintf("printed more than %d bytes", maxOutput)}
	}
	value, err := Read(kind, string(out))
	if err != nil {
		return secret.Value{}, &CommandError{shown, "printed no secret: " + err.Error()}
	}
	return value, nil
}

// masked is a command without the value that it prints, should that stand in it.
func masked(argv []string, value secret.Value) []string {
	text := value.Reveal()
	out := make([]string, len(argv))
	for i, word := range argv {
		out[i] = strings.ReplaceAll(word, text, secret.Mark)
	}
	return out
}

// Read is the value that a text of that kind is.
func Read(kind secret.Kind, text string) (secret.Value, error) {
	switch kind {
	case secret.KindAWS:
		return secret.ParseAWS(text)
	case "":
		return secret.New(Line(text))
	}
	return secret.Value{}, fmt.Errorf("%q is no kind of secret: aws, or none", kind)
}

// Line takes the one line end off a text that programs and files end with.
func Line(text string) string {
	text = strings.TrimSuffix(text, "\n")
	return strings.TrimSuffix(text, "\r")
}
