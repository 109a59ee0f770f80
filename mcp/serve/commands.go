package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/internal/shellword"
)

const (
	execSeconds, maxExecSeconds = 120, 3600
	outputBytes, maxOutputBytes = 64 << 10, 1 << 20
	maxArguments                = 4096
	maxVariables                = 256
)

type execIn struct {
	Command        string            `json:"command,omitempty" doc:"a command line for /bin/sh -c"`
	Argv           []string          `json:"argv,omitempty" doc:"or a program with its arguments, without a shell"`
	Cwd            string            `json:"cwd,omitempty" doc:"folder inside; a relative one begins at the project"`
	Env            map[string]string `json:"env,omitempty" doc:"variables in addition to the cloister's own"`
	Stdin          string            `json:"stdin,omitempty" doc:"text for standard input"`
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty" doc:"120 unless said, 3600 at most"`
	MaxOutputBytes int               `json:"max_output_bytes,omitempty" doc:"of each stream; 65536 unless said, 1048576 at most"`
}

type execOut struct {
	ExitStatus int    `json:"exit_status" doc:"as a shell gives it: 128+n for signal n"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	LeftOut    int64  `json:"left_out_bytes,omitempty" doc:"bytes of output that are not in this answer"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// argv is what is to be run.
func (in *execIn) argv() ([]string, error) {
	switch {
	case (in.Command == "") == (len(in.Argv) == 0):
		return nil, refuse("give either command or argv")
	case in.Command != "":
		return []string{"/bin/sh", "-c", in.Command}, nil
	case in.Argv[0] == "":
		return nil, refuse("argv names no program")
	case len(in.Argv) > maxArguments:
		return nil, refuse("argv has more than %d words", maxArguments)
	}
	return in.Argv, nil
}

func (in *execIn) variables() ([]string, error) {
	if len(in.Env) > maxVariables {
		return nil, refuse("env has more than %d variables", maxVariables)
	}
	var out []string
	for name, value := range in.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return nil, refuse("env: %q cannot be a variable", name)
		}
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out, nil
}

func (s *server) exec(ctx context.Context, r request, in execIn) (*toolResult, error) {
	argv, err := in.argv()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, "\x00") }) {
		return nil, refuse("a command has no NUL")
	}
	env, err := in.variables()
	if err != nil {
		return nil, err
	}
	dir, err := s.inside(in.Cwd)
	if err != nil {
		return nil, err
	}
	limit, err := seconds(in.TimeoutSeconds, execSeconds, maxExecSeconds)
	if err != nil {
		return nil, err
	}
	most := in.MaxOutputBytes
	switch {
	case most == 0:
		most = outputBytes
	case most < 1 || most > maxOutputBytes:
		return nil, refuse("max_output_bytes is 1 to %d", maxOutputBytes)
	}
	release, err := s.judged(ctx, r, shellword.Line(argv...))
	if err != nil {
		return nil, err
	}
	defer release()
	c := Command{Argv: argv, Dir: dir, Env: env, Stdin: strings.NewReader(in.Stdin)}
	return s.execute(ctx, c, limit, most)
}

// errTimeOver is the cause of the end of a command whose time is over.
var errTimeOver = errors.New("its time is over")

func (s *server) execute(
	ctx context.Context, c Command, limit time.Duration, most int,
) (*toolResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeOver)
	defer cancel()
	stdout, stderr := &ends{most: most}, &ends{most: most}
	c.Stdout, c.Stderr = stdout, stderr
	began := time.Now()
	status, err := s.o.Cloister.Run(ctx, c)
	out := execOut{
		ExitStatus: status, Stdout: stdout.text(), Stderr: stderr.text(), LeftOut: stdout.leftOut() + stderr.leftOut(),
		TimedOut: errors.Is(err, errTimeOver), DurationMS: time.Since(began).Milliseconds(),
	}
	if err != nil && !out.TimedOut {
		return nil, fmt.Errorf("run it in the cloister: %w", err)
	}
	var text strings.Builder
	text.WriteString(visible(out.Stdout))
	if out.Stderr != "" {
		fmt.Fprintf(&text, "\n[stderr]\n%s", visible(out.Stderr))
	}
	if out.TimedOut {
		fmt.Fprintf(&text, "\n[ended after %v: its time is over]", limit)
	}
	fmt.Fprintf(&text, "\n[exit status %d]", out.ExitStatus)
	return answer(text.String(), out, out.ExitStatus != 0 || out.TimedOut), nil
}

// ends keeps the first and the last half of what is written.
type ends struct {
	most        int
	mu          sync.Mutex
	first, last []byte
	all         int64
}

func (e *ends) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(p)
	e.all += int64(n)
	half := (e.most + 1) / 2
	if room := half - len(e.first); room > 0 {
		take := min(room, len(p))
		e.first, p = append(e.first, p[:take]...), p[take:]
	}
	e.last = append(e.last, p...)
	if over := len(e.last) - (e.most - half); over > 64<<10 {
		e.last = append(e.last[:0], e.last[over:]...)
	}
	return n, nil
}

// kept is what is given of the last half.
func (e *ends) kept() []byte {
	return e.last[max(0, len(e.last)-(e.most-(e.most+1)/2)):]
}

func (e *ends) leftOut() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all - int64(len(e.first)) - int64(len(e.kept()))
}

func (e *ends) text() string {
	left := e.leftOut()
	e.mu.Lock()
	defer e.mu.Unlock()
	if left == 0 {
		return clean(slices.Concat(e.first, e.kept()))
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", clean(e.first), left, clean(e.kept()))
}

var _ io.Writer = (*ends)(nil)
