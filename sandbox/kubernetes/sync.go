package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"cloister/sandbox/kubernetes/link"
	"cloister/sandbox/kubernetes/tree"
)

// bringEvery is how often what changed in a pod is brought back while its command runs: what is
// lost with a node is no more than that.
const bringEvery = 30 * time.Second

// synced is the agent's first process, and the folders that the pod has copies of.
type synced struct {
	first *link.First
	trees []tree.Tree

	work sync.Mutex // held while what changed is brought back

	mu   sync.Mutex
	at   time.Time // when what changed was brought back last; zero for never
	left []string  // protected paths of which something was not taken
	err  error     // of the last time while the command ran
}

// fill copies the folders into the pod, before anything runs there.
func fill(ctx context.Context, shim *link.Shim, trees []tree.Tree) (*synced, error) {
	c, err := shim.Init(ctx)
	if err != nil {
		return nil, err
	}
	s := &synced{first: link.NewFirst(c), trees: trees}
	if len(trees) == 0 {
		return s, nil
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	roots := make([]string, len(trees))
	for i, t := range trees {
		roots[i] = t.Target
	}
	err = s.first.Fill(roots, func(w io.Writer) error { return tree.Send(ctx, w, trees) })
	if err != nil {
		return nil, fmt.Errorf("copy the project: %w", err)
	}
	return s, nil
}

// keeps reports whether anything of the folders comes back.
func (s *synced) keeps() bool {
	for _, t := range s.trees {
		if t.Upper != nil {
			return true
		}
	}
	return false
}

// errBack says that the copies could not be brought back.
var errBack = errors.New("what the pod changed was not brought back")

// bring makes what differs in the pod the upper layers here. over is closed when the pod's
// connection is lost, and last says that it is the last time.
func (s *synced) bring(ctx context.Context, over <-chan struct{}, last bool) error {
	if !s.keeps() || ctx.Err() != nil {
		return nil
	}
	type result struct {
		left []string
		came bool
		err  error
	}
	done := make(chan result, 1)
	began := time.Now()
	go func() {
		var r result
		s.work.Lock()
		defer s.work.Unlock()
		if last {
			r.err = s.first.End() // nothing changes any more
		}
		if r.err == nil {
			r.came, r.err = s.first.Pack(func(body io.Reader) (err error) {
				r.left, err = tree.Receive(body, s.trees)
				return err
			})
		}
		if last {
			r.err = errors.Join(r.err, tree.Discard(s.trees))
		}
		done <- r
	}()
	var r result
	select {
	case r = <-done:
	case <-over:
		select { // what had come whole is there
		case r = <-done:
		case <-time.After(time.Second): // its stream ends with the connection
			r = result{err: errLost}
		}
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w%s", errBack, r.err, s.lost())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = began
	if r.came {
		s.left = r.left
	}
	return nil
}

// drop removes what the layers were before the last ones, where the pod is lost. What is still being
// brought back ends with the connection, and removes its own.
func (s *synced) drop() error {
	if !s.work.TryLock() {
		return nil
	}
	defer s.work.Unlock()
	return tree.Discard(s.trees)
}

// note keeps what went wrong while the command ran, which the next time may mend.
func (s *synced) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// lost says what of the folders is lost with the pod.
func (s *synced) lost() string {
	if !s.keeps() {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() {
		return ", and what it changed in the project with it"
	}
	return ", and what it changed in the project since " + s.at.Format(time.TimeOnly) + " with it"
}

// notices are for the person.
func (s *synced) notices() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.left) == 0 {
		return nil
	}
	return []string{"cloister: not brought back, since it is protected: " + strings.Join(s.left, ", ")}
}
