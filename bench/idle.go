package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"cloister/bench/facts"
)

// idleConnections are as many as a session may have at once, less a few.
const idleConnections = 1000

// hold opens connections that are read, asks once on each, and keeps them until
// the client ends.
func (o order) hold() error {
	var mu sync.Mutex
	return o.each(func() error {
		c, r, err := o.secure()
		if err != nil {
			return err
		}
		mu.Lock()
		*o.held = append(*o.held, c)
		mu.Unlock()
		return o.get(c, r, "/x")
	})
}

// measureIdle weighs the guardian before and with idle inspected connections. Only
// root may read its map.
func measureIdle(ctx context.Context, w *world) error {
	if os.Getuid() != 0 {
		return nil
	}
	p, l, port, err := w.secured(anybody)
	if err != nil {
		return err
	}
	defer l.Close()
	client, err := w.client()
	if err != nil {
		return err
	}
	many := idleConnections
	if w.short {
		many = 100
	}
	for range w.rounds(3) {
		guardian, err := w.guardianOf(ctx, fmt.Sprintf(readSettings, port, p.caFile, port))
		if err != nil {
			return err
		}
		y, err := w.open(ctx, ours, []string{w.cloister, "run", "--", client, insideWord}, fmt.Sprintf("%s:%d", readName, port), "", nil)
		if err != nil {
			return err
		}
		if err := w.idle(ctx, y, guardian, many); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) idle(ctx context.Context, y *way, guardian, many int) error {
	defer func() { _ = y.close() }()
	if _, err := y.do(order{Do: "requests", Name: readName, Times: 10}); err != nil {
		return err
	}
	settle(ctx)
	before, err := facts.PSS(guardian)
	if err != nil {
		return err
	}
	if _, err := y.do(order{Do: "hold", Name: readName, Times: many, Wide: 8}); err != nil {
		return err
	}
	settle(ctx)
	with, err := facts.PSS(guardian)
	if err != nil {
		return err
	}
	w.raw.add("idle inspected", ours, "KiB each", (with-before)/float64(many)/1024)
	return nil
}

// holding is what a client keeps open.
type holding []io.Closer
