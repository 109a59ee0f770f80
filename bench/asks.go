package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// asksOfASession are fewer than a session may ask in a minute.
const asksOfASession = 50

// measureAsks is a person in the loop: from the moment that a program inside
// begins to connect to the line of an open `approvals watch`, and from the moment
// that `approvals approve` is typed to the byte that the held connection brings
// back. Both hold the start of what a person has: a program of its own each.
func measureAsks(ctx context.Context, w *world) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	go serve(ln)
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	if _, err := w.guardian(ctx, n); err != nil {
		return err
	}
	client, err := w.client()
	if err != nil {
		return err
	}
	watch, err := w.watch(ctx)
	if err != nil {
		return err
	}
	for range w.rounds(8) {
		if err := w.asks(ctx, watch, client, net.JoinHostPort("ask.bench.example", port)); err != nil {
			return errors.Join(err, watch.close())
		}
	}
	return watch.close()
}

// asks adds the 95th percentiles of one session.
func (w *world) asks(ctx context.Context, watch *watcher, client, to string) error {
	mine, err := w.open(ctx, ours, []string{w.cloister, "run", "--", client, insideWord}, to, "", nil)
	if err != nil {
		return err
	}
	var appear, goOn []float64
	for range asksOfASession {
		one, err := w.ask(ctx, watch, mine)
		if err != nil {
			return errors.Join(err, mine.close())
		}
		appear, goOn = append(appear, one[0]), append(goOn, one[1])
	}
	for subject, list := range map[string][]float64{"ask to appearance": appear, "answer to going on": goOn} {
		slices.Sort(list)
		w.raw.add(subject+", p50", ours, "ms", list[len(list)/2])
		w.raw.add(subject+", p95", ours, "ms", list[len(list)*95/100])
	}
	return mine.close()
}

func (w *world) ask(ctx context.Context, watch *watcher, mine *way) (ms [2]float64, err error) {
	done := make(chan error, 1)
	var a answer
	go func() { done <- mine.tell(order{Do: "connect", Times: 1}, &a) }()
	seen, id, err := watch.next()
	if err != nil {
		return ms, err
	}
	typed := time.Now()
	if _, err := w.said(ctx, w.cloister, "approvals", "approve", id); err != nil {
		return ms, err
	}
	if err := <-done; err != nil {
		return ms, err
	}
	if err := watch.settled(id); err != nil {
		return ms, err
	}
	between := func(from, to int64) float64 { return float64(to-from) / float64(time.Millisecond) }
	return [2]float64{between(a.Began, seen.UnixNano()), between(typed.UnixNano(), a.Ended)}, nil
}

// watcher is an open `cloister approvals watch`.
type watcher struct {
	lines *bufio.Scanner
	end   func() error
}

func (w *world) watch(ctx context.Context) (*watcher, error) {
	cmd := w.in(ctx, w.cloister, "approvals", "watch", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	for range 200 {
		var status struct{ Watchers int }
		text, err := w.said(ctx, w.cloister, "guardian", "status", "--json")
		if err == nil && json.Unmarshal(text, &status) == nil && status.Watchers > 0 {
			return &watcher{bufio.NewScanner(out), func() error {
				return errors.Join(cmd.Process.Signal(syscall.SIGINT), cmd.Wait())
			}}, nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return nil, errors.Join(errors.New("watch: the guardian knows of nobody who watches"), cmd.Process.Kill(), cmd.Wait())
}

func (w *watcher) close() error { return w.end() }

// line is the next state of a question, and when it was here.
func (w *watcher) line() (at time.Time, id, state string, err error) {
	if !w.lines.Scan() {
		return at, "", "", errors.Join(errors.New("watch: it ended"), w.lines.Err())
	}
	at = time.Now()
	var i struct{ ID, State string }
	err = json.Unmarshal(w.lines.Bytes(), &i)
	return at, i.ID, i.State, err
}

// next waits for a new question.
func (w *watcher) next() (time.Time, string, error) {
	at, id, state, err := w.line()
	if err == nil && state != "pending" {
		err = fmt.Errorf("watch: %s is %s", id, state)
	}
	return at, id, err
}

// settled waits for the end of one.
func (w *watcher) settled(id string) error {
	_, got, state, err := w.line()
	if err == nil && (got != id || state != "allowed") {
		err = fmt.Errorf("watch: %s is %s, not %s allowed", got, state, id)
	}
	return err
}
