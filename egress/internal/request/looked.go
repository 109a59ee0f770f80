package request

import (
	"errors"
	"fmt"
	"io"
	"time"

	"cloister/egress/internal/stream"
	"cloister/egress/internal/wire"
	"cloister/internal/reading"
)

// A person who is asked about a request is shown what is known of its body: mostLooked
// bytes of it at most, and what has come within lookWithin. All of it goes up later as it
// came.
const (
	MostLooked = 64 << 10
	LookWithin = 2 * time.Second
)

// ErrRead says that it is too late to look.
var ErrRead = errors.New("its body was read before a person was asked")

// Looked is what was read, once.
type Looked struct {
	reading.Beginning
	Err error
}

// Unseen is why a body cannot be looked at.
func Unseen(err error) error {
	if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
		return fmt.Errorf("its body cannot be read: %w", syntax)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return errors.New("its body cannot be looked at: " + stream.EndOf(err))
}
