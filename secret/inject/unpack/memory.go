package unpack

import (
	"context"
	"errors"
	"sync"

	"cloister/internal/budget"
)

// ErrCrowded ends a body for which there was no memory.
var ErrCrowded = errors.New("too many compressed bodies at once")

// A Share is what one session has for bodies that are unpacked.
type Share struct{ memory *budget.Share }

// Of is what a session may take of its memory.
func Of(memory *budget.Share) *Share { return &Share{memory: memory} }

// take waits for n bytes. They are held until done, or until ctx ends.
func (s *Share) take(ctx context.Context, n int64) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.memory.Wait(n, ctx.Done()) != nil {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, ErrCrowded
	}
	var once sync.Once
	give := func() { once.Do(func() { s.memory.Give(n) }) }
	stop := context.AfterFunc(ctx, give)
	return func() { stop(); give() }, nil
}
