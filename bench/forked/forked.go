package forked

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The subjects, and who is in them.
const (
	Frozen = "frozen by a checkpoint of 100 MiB"
	Took   = "a checkpoint of 100 MiB"
	First  = "one fork of 100 MiB runs"
	All    = "ten forks of 100 MiB run"

	Ours = "cloister, gvisor"
	Peer = "runsc"
)

// many are the forks of All.
const many = 10

//go:embed holds.py
var holds string

// Options are what is measured.
type Options struct {
	Cloister string
	Runsc    string // "" leaves it out
	Rounds   int
	// Said runs a command of the bench's world, and gives what it prints.
	Said func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Add takes a figure.
	Add func(subject, contender, unit string, value float64)
}

// A way is one of the two that keep a memory and go on from it.
type way interface {
	// keep makes a checkpoint, and gives what forks name it by.
	keep(ctx context.Context) (string, error)
	// fork starts forks of a checkpoint, which run when it returns.
	fork(ctx context.Context, of string, count int) (names []string, err error)
	// gaps are what the process of that name wrote; "" is the parent.
	gaps(ctx context.Context, name string) (string, error)
	// end ends forks.
	end(ctx context.Context, names []string) error
	// close ends the parent, and removes what was made.
	close(ctx context.Context) error
}

// Measure takes both in turns.
func Measure(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp("/var/tmp", "forked") // below /tmp the host's view would be in the way
	if err != nil {
		return fmt.Errorf("measure forks: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ways := map[string]way{}
	defer func() {
		for _, w := range ways {
			err = errors.Join(err, w.close(context.WithoutCancel(ctx)))
		}
	}()
	if ways[Ours], err = o.product(ctx, filepath.Join(dir, "project")); err != nil {
		return err
	}
	contenders := []string{Ours}
	if o.Runsc != "" {
		if ways[Peer], err = o.bare(ctx, filepath.Join(dir, "bare")); err != nil {
			return err
		}
		contenders = append(contenders, Peer)
	}
	for range o.Rounds {
		for _, name := range contenders {
			if err := o.round(ctx, name, ways[name]); err != nil {
				return fmt.Errorf("measure forks: %s: %w", name, err)
			}
		}
	}
	return nil
}

func (o Options) round(ctx context.Context, name string, w way) error {
	began := time.Now()
	of, err := w.keep(ctx)
	if err != nil {
		return err
	}
	o.Add(Took, name, "ms", ms(time.Since(began)))
	missed, err := since(ctx, w, "", began)
	if err != nil {
		return err
	}
	o.Add(Frozen, name, "ms", 1000*missed.longest)
	for subject, count := range map[string]int{First: 1, All: many} {
		began := time.Now()
		names, err := w.fork(ctx, of, count)
		if err != nil {
			return err
		}
		last := 0.0
		for _, n := range names {
			m, err := since(ctx, w, n, began)
			if err != nil {
				return err
			}
			last = max(last, m.first-seconds(began))
		}
		if err := w.end(ctx, names); err != nil {
			return err
		}
		o.Add(subject, name, "ms", 1000*last)
	}
	return nil
}

// missed is what a process noticed since a moment: when it first went on, in seconds of the
// epoch, and the longest time that it did not run.
type missed struct{ first, longest float64 }

// since waits until the process has noticed something that ended after a moment.
func since(ctx context.Context, w way, name string, moment time.Time) (missed, error) {
	for {
		text, err := w.gaps(ctx, name)
		if err != nil {
			return missed{}, err
		}
		if m := read(text, seconds(moment)); m.first > 0 {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return missed{}, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func read(text string, moment float64) (m missed) {
	for line := range strings.Lines(text) {
		var gap, end float64
		if _, err := fmt.Sscanf(line, "%f %f\n", &gap, &end); err != nil || end < moment {
			continue // a line that is not whole yet, or one of before
		}
		if m.first == 0 {
			m.first = end
		}
		m.longest = max(m.longest, gap)
	}
	return m
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
