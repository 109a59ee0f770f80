package forked

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// parent is the cloister whose memory is kept.
const parent = "forked"

// product is Cloister.
type product struct{ o Options }

func (o Options) product(ctx context.Context, dir string) (way, error) {
	if err := written(dir); err != nil {
		return nil, err
	}
	_, err := o.Said(ctx, o.Cloister, "run", "-d", "--name", parent, "--isolation", "gvisor", "--workspace", "overlay", "-C", dir,
		"--", "/usr/bin/python3", "holds.py")
	if err != nil {
		return nil, err
	}
	p := &product{o}
	return p, until(ctx, func() bool {
		_, err := p.o.Said(ctx, p.o.Cloister, "exec", parent, "--", "test", "-e", "up")
		return err == nil
	})
}

func (p *product) keep(ctx context.Context) (string, error) {
	out, err := p.o.Said(ctx, p.o.Cloister, "checkpoint", parent, "--memory")
	return parent + "@" + strings.TrimSpace(string(out)), err
}

func (p *product) fork(ctx context.Context, of string, count int) ([]string, error) {
	out, err := p.o.Said(ctx, p.o.Cloister, "fork", of, "--memory", "--count", fmt.Sprint(count),
		"--accept", "residue:fork-randomness")
	return strings.Fields(string(out)), err
}

func (p *product) gaps(ctx context.Context, name string) (string, error) {
	if name == "" {
		name = parent
	}
	out, err := p.o.Said(ctx, p.o.Cloister, "exec", name, "--", "sh", "-c", "cat gaps || true")
	return string(out), err
}

func (p *product) end(ctx context.Context, names []string) error {
	for _, n := range names {
		for _, verb := range [][]string{{"stop", n, "-t", "0s"}, {"discard", n}} {
			if _, err := p.o.Said(ctx, p.o.Cloister, verb...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *product) close(ctx context.Context) error { return p.end(ctx, []string{parent}) }

// written makes a folder with the program.
func written(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "holds.py"), []byte(holds), 0o644)
}

// until waits for a minute at most.
func until(ctx context.Context, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("measure forks: the process does not run: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}
