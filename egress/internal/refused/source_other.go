//go:build !linux

package refused

import (
	"context"
	"errors"
	"os"
	"time"
)

// A Socket is of Linux.
type Socket struct{}

// Open fails.
func Open(*os.File) (*Socket, error) { return nil, errors.New("the log of refusals is of Linux") }

// Close does nothing.
func (s *Socket) Close() error { return nil }

// Wait ends with ctx.
func (s *Socket) Wait(ctx context.Context, _ time.Time) error { <-ctx.Done(); return nil }

// Next gives nothing.
func (s *Socket) Next() ([]byte, bool) { return nil, false }

// Lost is none.
func (s *Socket) Lost() (uint32, error) { return 0, nil }
