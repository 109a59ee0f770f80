package http2

import (
	"crypto/sha256"
	"errors"
	"io"

	"cloister/egress/internal/ahead"
	"cloister/egress/internal/request"
	"cloister/egress/internal/wire"
	"cloister/internal/reading"
)

// look reads the beginning of a stream's body, and puts it back before the rest.
func (m *message) look() (reading.Beginning, error) {
	if m.seen == nil {
		m.seen = &request.Looked{}
		m.seen.Beginning, m.seen.Err = m.lookAhead()
	}
	return m.seen.Beginning, m.seen.Err
}

func (m *message) lookAhead() (reading.Beginning, error) {
	if m.sent != nil {
		return reading.Beginning{}, request.ErrRead
	}
	m.ahead = ahead.New(m.r.Body, m.Stream.Session.Memory, request.MostLooked)
	m.r.Body = m.ahead
	text, err := m.ahead.Look(m.r.Context(), request.LookWithin)
	b := reading.Beginning{Size: int64(len(text)), Sum: sha256.Sum256(text), Declared: m.r.ContentLength}
	switch {
	case m.r.Context().Err() != nil:
		return b, errors.New("the program has ended the request")
	case errors.Is(err, ahead.ErrMore):
	case err == nil:
		b.Late = true
	case !errors.Is(err, io.EOF):
		return b, request.Unseen(err)
	default:
		b.Whole = true
		wire.TidyTrailers(m.r.Trailer)
		for _, f := range listed(m.r.Trailer) {
			b.Trailer = append(b.Trailer, [2]string{f.Name, f.Value})
		}
	}
	return b, nil
}
