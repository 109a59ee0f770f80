package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cloister/audit"
	"cloister/internal/durable"
)

// Bounds of one batch: events in it, and how long its first waits for more.
const (
	mostEvents = 512
	waitFor    = time.Second
)

// A Source is one record that is sent.
type Source struct {
	Dir    string // of the record
	Ledger string // the file that says how much of it was sent
	Follow bool   // go on as events come; otherwise until its present end
	// Bad is given what could not be read of the record; the rest is sent.
	Bad func(error)
}

// ledger is how much of a record was sent. The hash tells that record from another one in its place.
type ledger struct {
	V    int    `json:"v"`
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// ErrOther says that the record is not the one of which a part was sent.
var ErrOther = errors.New("this record is not the one that was sent before")

// Run sends a record from where an earlier run ended. A batch that was sent right before a crash is
// sent again, with the same IDs.
func (e *Exporter) Run(ctx context.Context, s Source) error {
	at, err := readLedger(s.Ledger)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events, done := make(chan audit.Event, mostEvents), make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		s.read(ctx, events)
	}()
	err = e.send(ctx, s, at, events)
	stop()
	<-done
	return err
}

// read gives the record's events until its end, or the context's.
func (s Source) read(ctx context.Context, to chan<- audit.Event) {
	lines := audit.Lines(s.Dir, audit.Filter{})
	if s.Follow {
		lines = audit.Follow(ctx, s.Dir, audit.Filter{})
	}
	for l, err := range lines {
		if err != nil {
			s.Bad(err)
			continue
		}
		select {
		case to <- l.Event:
		case <-ctx.Done():
			return
		}
	}
}

// send sends what comes, behind what the ledger says was sent.
func (e *Exporter) send(ctx context.Context, s Source, at ledger, events <-chan audit.Event) error {
	var batch []audit.Event
	timer := time.NewTimer(waitFor)
	defer timer.Stop()
	for open := true; open; {
		full := false
		select {
		case event, more := <-events:
			open = more
			switch {
			case !more:
			case event.Seq > at.Seq:
				if len(batch) == 0 {
					timer.Reset(waitFor)
				}
				batch = append(batch, event)
				full = len(batch) == mostEvents
			case event.Seq == at.Seq && event.Hash != at.Hash:
				return fmt.Errorf("send %s: event %d: %w", s.Dir, at.Seq, ErrOther)
			default:
				e.Skip(event)
			}
		case <-timer.C:
			full = true
		}
		if !full && open || len(batch) == 0 {
			continue
		}
		if err := e.Send(ctx, batch); err != nil {
			return err
		}
		last := batch[len(batch)-1]
		at, batch = ledger{V: 1, Seq: last.Seq, Hash: last.Hash}, batch[:0]
		if err := at.write(s.Ledger); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func readLedger(file string) (ledger, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ledger{}, nil
	}
	var l ledger
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && l.V != 1 {
		err = fmt.Errorf("it has version %d, want 1", l.V)
	}
	if err != nil {
		return l, fmt.Errorf("read what was sent: %s: %w", file, err)
	}
	return l, nil
}

func (l ledger) write(file string) error {
	text, err := json.Marshal(l)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(file, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note what was sent: %w", err)
	}
	return nil
}
