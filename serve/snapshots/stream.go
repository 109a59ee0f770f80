package snapshots

import (
	"context"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
)

// atOnce is how many chunks are on their way at once.
const atOnce = 4

// writer writes a stream as chunks.
type writer struct {
	cell  *Cell
	seal  *sealer
	in    string // the cell's name
	id    string
	known map[string]chunk // by name, those that are there already

	chunks []chunk
}

// write gives the manifest of what pack wrote. An error of the bucket comes before one that it caused.
func (w *writer) write(ctx context.Context, pack Pack) (*manifest, error) {
	sending, gctx := errgroup.WithContext(ctx)
	sending.SetLimit(atOnce)
	cut := &cutter{gear: &w.seal.gear, emit: func(text []byte) error {
		one := chunk{Name: w.seal.name(text), In: w.id, Size: len(text)}
		if have, ok := w.known[one.Name]; ok {
			one = have
		} else {
			w.known[one.Name] = one
			sending.Go(func() error {
				place := one.place(w.in)
				if err := w.cell.Bucket.Put(gctx, place, w.seal.seal(place, text)); err != nil {
					return &Away{err}
				}
				return nil
			})
		}
		w.chunks = append(w.chunks, one)
		return context.Cause(gctx)
	}}
	err := pack(&limited{cut, Most})
	if err == nil {
		err = cut.flush()
	}
	if sent := sending.Wait(); sent != nil {
		err = sent
	}
	if err != nil {
		return nil, err
	}
	return &manifest{Version: manifestVersion, Chunks: w.chunks}, nil
}

// reader gives the stream of a manifest: whole, or an error. Some chunks are fetched ahead.
type reader struct {
	next chan chan piece
	stop context.CancelFunc
	all  sync.WaitGroup
	have []byte
	err  error
	over error // of the end of next: io.EOF when all of it was sent
}

// piece is a chunk's bytes.
type piece struct {
	text []byte
	err  error
}

func newReader(ctx context.Context, b Bucket, seal *sealer, m *manifest, err error) *reader {
	ctx, stop := context.WithCancel(ctx)
	r := &reader{next: make(chan chan piece, atOnce-1), stop: stop, err: err}
	if err != nil {
		return r
	}
	r.all.Go(func() {
		defer close(r.next)
		r.over = io.EOF
		for _, one := range m.Chunks {
			slot := make(chan piece, 1)
			select {
			case r.next <- slot:
			case <-ctx.Done():
				r.over = context.Cause(ctx)
				return
			}
			r.all.Go(func() {
				text, err := one.read(ctx, b, seal, m)
				slot <- piece{text, err}
			})
		}
	})
	return r
}

// read fetches one chunk, which must be what its name says.
func (c chunk) read(ctx context.Context, b Bucket, seal *sealer, m *manifest) ([]byte, error) {
	text, err := fetch(ctx, b, seal, m.row.ID, c.place(m.cell), c.Size)
	if err == nil && (len(text) != c.Size || seal.name(text) != c.Name) {
		err = &Bad{m.row.ID, fmt.Errorf("%s has other bytes", c.place(m.cell))}
	}
	return text, err
}

// Read gives what was verified.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.have) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		slot, more := <-r.next
		if !more {
			r.err = r.over
			continue
		}
		got := <-slot
		r.have, r.err = got.text, got.err
		if got.err != nil {
			r.have = nil
		}
	}
	n := copy(p, r.have)
	r.have = r.have[n:]
	return n, nil
}

// Close gives up what was not read.
func (r *reader) Close() error {
	r.stop()
	r.all.Wait()
	return nil
}
