package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// editorLeft is how long an agent may take to end when its editor has gone.
const editorLeft = 5 * time.Second

// Joined is an agent's stdin and stdout with the relay behind them.
type Joined struct {
	// Stdin and Stdout are the agent's ends.
	Stdin, Stdout *os.File
	// End yields why the agent has to end.
	End <-chan string

	toAgent, fromAgent *os.File
	end                chan string
	over               context.CancelFunc // nil until Start
	done               chan error
}

// NewJoined makes the streams of an agent. The caller closes them.
func NewJoined() (*Joined, error) {
	end := make(chan string, 1)
	j := &Joined{End: end, end: end, done: make(chan error, 1)}
	var err error
	if j.Stdin, j.toAgent, err = os.Pipe(); err != nil {
		return nil, err
	}
	if j.fromAgent, j.Stdout, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, j.Stdin.Close(), j.toAgent.Close())
	}
	return j, nil
}

// Start begins to relay. It is called once, when the agent runs.
func (j *Joined) Start(ctx context.Context, o Options, fromEditor io.Reader, toEditor io.Writer) {
	ctx, j.over = context.WithCancel(ctx)
	go func() {
		ends := Ends{FromEditor: fromEditor, ToEditor: toEditor, FromAgent: j.fromAgent, ToAgent: j.toAgent}
		err := Run(ctx, o, ends, func() { j.endAfter(ctx, editorLeft, "its editor has gone") })
		if err != nil {
			j.endAfter(ctx, 0, fmt.Sprintf("its messages cannot be passed on: %v", err))
		}
		j.done <- err
	}()
}

// endAfter asks for the agent's end after a while, unless it is over by then.
func (j *Joined) endAfter(ctx context.Context, after time.Duration, why string) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(after):
	}
	select {
	case j.end <- why:
	default: // an earlier reason stands
	}
}

// Finish passes on what an agent that has ended left in its pipe, and gives why the relay
// ended before it, if it did.
func (j *Joined) Finish() error {
	if j.over == nil {
		return nil
	}
	_, _ = j.Stdin.Close(), j.Stdout.Close()
	j.over()
	return <-j.done
}

// Close closes all ends.
func (j *Joined) Close() {
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.toAgent, j.fromAgent} {
		_ = f.Close() // once more does nothing
	}
}
