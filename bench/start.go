package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// contender is one command that is timed; slow ones run in every nth round.
type contender struct {
	name  string
	words []string
	every int
}

// race times the contenders in turns. The first rounds warm up.
func (w *world) race(ctx context.Context, subject string, rounds int, list []contender) error {
	const warm = 2
	for n := range rounds + warm {
		for i := range list {
			// Who is first changes, so that nobody always follows the same one.
			c := list[(i+n)%len(list)]
			if n%c.every != 0 {
				continue
			}
			took, err := w.time(ctx, c.words)
			if err != nil {
				return err
			}
			if n >= warm {
				w.raw.add(subject, c.name, "ms", float64(took.Microseconds())/1000)
			}
		}
	}
	return nil
}

func (w *world) time(ctx context.Context, words []string) (time.Duration, error) {
	cmd := w.in(ctx, words[0], words[1:]...)
	var errs bytes.Buffer
	cmd.Stderr = nil
	began := time.Now()
	if err := cmd.Run(); err != nil {
		again := w.in(ctx, words[0], words[1:]...)
		again.Stderr = &errs
		_ = again.Run() // for its words
		return 0, fmt.Errorf("%v: %w: %s", words, err, bytes.TrimSpace(errs.Bytes()))
	}
	return time.Since(began), nil
}

func measureVersion(ctx context.Context, w *world) error {
	return w.race(ctx, "version", w.rounds(200), []contender{
		{ours, []string{w.cloister, "version"}, 1},
		{"Go hello-world", []string{w.bin + "/hello"}, 1},
	})
}

func (w *world) rounds(n int) int {
	if w.short {
		return max(3, n/40)
	}
	return n
}

func measureStart(ctx context.Context, w *world) error {
	if _, err := w.guardian(ctx, 9); err != nil {
		return err
	}
	list := []contender{{ours, []string{w.cloister, "run", "--", "true"}, 1}}
	if p, ok := w.peers["bwrap"]; ok {
		list = append(list, contender{"bwrap", []string{p.path, "--unshare-all", "--ro-bind", "/", "/", "true"}, 1})
	}
	if w.short {
		return w.race(ctx, "start", w.rounds(120), list)
	}
	if _, ok := w.peers["docker"]; ok {
		const image = "cloister-bench:true"
		words, err := w.docker(ctx, image)
		if err != nil {
			w.absent("docker", err)
		} else {
			defer func() {
				_ = w.in(context.WithoutCancel(ctx), words[0], append(slices.Clone(words[1:]), "rmi", image)...).Run()
			}()
			list = append(list, contender{"docker", append(slices.Clone(words), "run", "--rm", "--network", "none", image, "true"), 8})
		}
	}
	if p, ok := w.peers["srt"]; ok {
		list = append(list, contender{"srt", []string{p.path, "true"}, 8})
	}
	if p, ok := w.peers["runsc do"]; ok {
		words := []string{p.path, "--network=none"}
		if os.Getuid() != 0 {
			words = append(words, "--rootless")
		}
		list = append(list, contender{"runsc do", append(words, "do", "true"), 8})
	}
	// A peer that does not work here is told, not measured.
	list = slices.DeleteFunc(list, func(c contender) bool {
		if c.name == ours {
			return false
		}
		if _, err := w.time(ctx, c.words); err != nil {
			w.absent(c.name, err)
			return true
		}
		return false
	})
	return w.race(ctx, "start", w.rounds(120), list)
}

// absent says why a peer that is installed has no figures.
func (w *world) absent(name string, err error) {
	text := []rune(err.Error())
	w.raw.Peers[name] += " (does not run here: " + string(text[:min(300, len(text))]) + ")"
	delete(w.peers, name)
	fmt.Fprintln(os.Stderr, name, "does not run here:", err)
}
