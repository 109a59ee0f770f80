package overlays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxOutputKept bounds what is kept of a command's output, of which the end is shown.
const MaxOutputKept = 64 << 10

// again runs this program with other words, and gives the end of what it prints.
func (a *Commands) again(ctx context.Context, words ...string) (out []byte, status int, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, fmt.Errorf("find cloister itself: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(self, append([]string{os.Args[0]}, words...),
		&os.ProcAttr{Env: os.Environ(), Files: []*os.File{null, w, w}})
	w.Close()
	if err != nil {
		return nil, 0, fmt.Errorf("start cloister again: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGTERM) })() // its end is waited for
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = r.Read(buf)
		out = append(out, buf[:n]...)
		out = out[max(0, len(out)-MaxOutputKept):]
	}
	state, werr := p.Wait()
	if !errors.Is(err, io.EOF) {
		werr = errors.Join(werr, err)
	}
	if err := cmp.Or(ctx.Err(), werr); err != nil {
		return nil, 0, err
	}
	return out, state.ExitCode(), nil
}
