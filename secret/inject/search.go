package inject

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"cloister/egress/verdict"
	"cloister/secret"
	"cloister/secret/inject/unpack"
)

// found is what came of a search: the first placeholder, or -1, and why there may
// be more.
type found struct {
	i   int
	err error
}

// A search is a body that is looked at while it passes.
type search struct {
	edit *edit
	m    verdict.Message // for what is recorded
	find *secret.Search
	from io.Reader
	err  error
	seen bool // something was found: there is nothing more to look for
	// Nothing was read yet, and nothing is said of a coding: a file that is sent as it
	// is may be compressed, too (guessed).
	fresh, guessed bool

	// Of a compressed body: where it goes to be unpacked, and what was found there.
	// The last that was read waits for that, so that no server has the whole before.
	packed      *io.PipeWriter
	found       chan found
	ready, last []byte
	buf         []byte
}

func (r *search) Read(p []byte) (int, error) {
	if r.fresh {
		r.fresh = false
		if n, err := r.begin(p); r.found == nil {
			return r.look(p, n, err)
		}
	}
	for r.found != nil && len(r.ready) == 0 && r.err == nil {
		r.next()
	}
	if n := copy(p, r.ready); n > 0 {
		r.ready = r.ready[n:]
		return n, nil
	}
	if r.err != nil || r.found != nil {
		return 0, r.err
	}
	n, err := r.from.Read(p)
	return r.look(p, n, err)
}

// look searches the n bytes that were read into p.
func (r *search) look(p []byte, n int, err error) (int, error) {
	if r.seen {
		return n, err
	}
	if i := r.find.Write(p[:n]); i >= 0 && r.stop(i) != nil {
		return 0, r.err
	}
	return n, err
}

// begin reads how the body begins into p. What begins as a compressed file does is
// unpacked, and read again from there.
func (r *search) begin(p []byte) (n int, err error) {
	for n < len(p) && err == nil && (n == 0 || begins(p[:n])) {
		var more int
		more, err = r.from.Read(p[n:])
		if n += more; packedAs(p[:n]) != "" {
			break
		}
	}
	if coding := packedAs(p[:n]); coding != "" {
		r.guessed, r.from = true, &again{first: bytes.Clone(p[:n]), err: err, from: r.from}
		r.unpack(r.edit.ctx, []string{coding})
	}
	return n, err
}

// magics are how compressed files begin, of those that say so.
func magics(yield func(magic, coding string) bool) {
	_ = yield("\x1f\x8b\x08", "gzip") && yield("\x28\xb5\x2f\xfd", "zstd") &&
		yield("\x78\x01", "deflate") && yield("\x78\x5e", "deflate") && yield("\x78\x9c", "deflate") &&
		yield("\x78\xda", "deflate")
}

// packedAs is the coding of a file that begins so; empty for none.
func packedAs(head []byte) string {
	for magic, coding := range magics {
		if strings.HasPrefix(string(head[:min(len(head), 4)]), magic) {
			return coding
		}
	}
	return ""
}

// begins reports whether what is too short to tell may be the beginning of one.
func begins(head []byte) bool {
	for magic := range magics {
		if len(head) < len(magic) && strings.HasPrefix(magic, string(head)) {
			return true
		}
	}
	return false
}

// An again reader gives what was read of another one, and goes on with that.
type again struct {
	first []byte
	err   error
	from  io.Reader
}

func (r *again) Read(p []byte) (int, error) {
	if n := copy(p, r.first); n > 0 || r.err != nil {
		if r.first = r.first[n:]; len(r.first) > 0 {
			return n, nil
		}
		return n, r.err
	}
	return r.from.Read(p)
}

// next reads more of a compressed body, and gives what was read before free.
func (r *search) next() {
	if r.buf == nil {
		r.buf = make([]byte, 32<<10)
	}
	n, err := r.from.Read(r.buf)
	i := r.find.Write(r.buf[:n])
	if i < 0 && n > 0 && r.packed != nil {
		// It fails when something was found, or what comes is not what it says.
		if _, werr := r.packed.Write(r.buf[:n]); werr != nil {
			i = r.unpacked()
		}
	}
	if i < 0 && errors.Is(err, io.EOF) && r.packed != nil {
		_ = r.packed.Close()
		i = r.unpacked()
	}
	if i >= 0 && !r.seen {
		_ = r.stop(i) // it stays in r.err
	}
	if r.err != nil {
		r.ready, r.last = nil, nil
		return
	}
	if n > 0 {
		r.ready, r.last = r.last, append([]byte(nil), r.buf[:n]...)
	}
	if r.err = err; errors.Is(err, io.EOF) {
		r.ready = append(r.ready, r.last...)
	}
}

// unpacked waits for what was found in a compressed body. One that cannot be
// searched goes no further, unless it may mention placeholders anyway.
func (r *search) unpacked() int {
	got := <-r.found
	if r.packed = nil; errors.Is(got.err, unpack.ErrCrowded) || got.err != nil && r.edit.used == "" && !r.guessed {
		r.err = unreadable(got.err)
	}
	return got.i
}

// stop ends the body with what was found, unless it may be mentioned there.
func (r *search) stop(i int) error {
	r.err, r.seen = r.edit.misplaced(&r.m, i, "body"), true
	return r.err
}

// unpack searches a compressed body beside its way.
func (r *search) unpack(ctx context.Context, codings []string) {
	out, in := io.Pipe()
	r.packed, r.found = in, make(chan found, 1)
	unhook := context.AfterFunc(ctx, func() { _ = out.CloseWithError(ctx.Err()) })
	go func() {
		defer unhook()
		r.found <- r.edit.s.searchPacked(ctx, codings, out)
		_ = out.CloseWithError(errEnough)
	}()
}

// errEnough ends a pipe whose reader wants no more.
var errEnough = errors.New("enough was read")

// searchPacked looks for a placeholder in a compressed text. What cannot be
// unpacked is no place for one that a server could find, unless the bounds are
// ours alone.
func (s *Session) searchPacked(ctx context.Context, codings []string, from io.Reader) found {
	open, err := s.memory.Reader(ctx, codings, from)
	if err != nil {
		return found{i: -1}
	}
	open = unpack.Bound(ctx, open, s.most)
	find := s.finder.Stream()
	buf := make([]byte, 16<<10)
	for {
		n, err := open.Read(buf)
		if i := find.Write(buf[:n]); i >= 0 {
			return found{i: i}
		}
		switch {
		case errors.Is(err, unpack.ErrTooMuch), errors.Is(err, unpack.ErrWindow), errors.Is(err, unpack.ErrCrowded):
			return found{-1, err}
		case err != nil:
			return found{i: -1}
		}
	}
}
