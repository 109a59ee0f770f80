package ahead_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"cloister/egress/internal/ahead"
	"cloister/internal/budget"
)

const most = 64 << 10

// A look sees the beginning, and who reads gets the whole, whatever the body does.
func TestLook(t *testing.T) {
	broken := errors.New("broken")
	text := strings.Repeat("0123456789", 10000)
	for name, c := range map[string]struct {
		from io.Reader
		size int
		room int64
		sees int
		err  error
	}{
		"empty":     {strings.NewReader(""), 0, 1 << 20, 0, io.EOF},
		"short":     {strings.NewReader(text[:100]), 100, 1 << 20, 100, io.EOF},
		"in bytes":  {iotest.OneByteReader(strings.NewReader(text[:5000])), 5000, 1 << 20, 5000, io.EOF},
		"with end":  {iotest.DataErrReader(strings.NewReader(text[:5000])), 5000, 1 << 20, 5000, io.EOF},
		"as much":   {strings.NewReader(text[:most]), most, 1 << 20, most, io.EOF},
		"one more":  {strings.NewReader(text[:most+1]), most + 1, 1 << 20, most, ahead.ErrMore},
		"much":      {strings.NewReader(text), len(text), 1 << 20, most, ahead.ErrMore},
		"breaks":    {io.MultiReader(strings.NewReader(text[:700]), iotest.ErrReader(broken)), 700, 1 << 20, 700, broken},
		"no memory": {strings.NewReader(text), 32 << 10, 64 << 10, 32 << 10, budget.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			b := budget.New(c.room, 0, time.Millisecond)
			r := ahead.New(io.NopCloser(c.from), b.Share(), most)
			got, err := r.Look(t.Context(), time.Minute)
			if !errors.Is(err, c.err) || string(got) != text[:c.sees] {
				t.Errorf("sees %d bytes, %v", len(got), err)
			}
			if held := b.Used(); held < int64(len(got)) || held > 2*most+8<<10 {
				t.Errorf("%d bytes hold %d", len(got), held)
			}
			whole, err := io.ReadAll(r)
			if string(whole) != text[:c.size] || errors.Is(c.err, broken) != errors.Is(err, broken) {
				t.Errorf("read %d bytes, %v", len(whole), err)
			}
			if r.End(); b.Used() != 0 {
				t.Errorf("%d are held at the end", b.Used())
			}
		})
	}
}

// slow is a body that comes when it is sent, and that closing ends.
type slow struct{ *io.PipeReader }

// A look ends in time, or with its request, and what comes later follows what was seen.
func TestLate(t *testing.T) {
	for name, leaves := range map[string]bool{"in time": false, "with its request": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(1<<20, 0, time.Millisecond)
				from, to := io.Pipe()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				r := ahead.New(slow{from}, b.Share(), most)
				go func() { _, _ = io.WriteString(to, "one ") }()
				if leaves {
					go func() {
						time.Sleep(time.Second) //nolint:forbidigo // of the bubble's clock
						leave()
					}()
				}
				begin := time.Now()
				if got, err := r.Look(ctx, 2*time.Second); string(got) != "one " || err != nil {
					t.Errorf("sees %q, %v", got, err)
				}
				if took := time.Since(begin); took != 2*time.Second && !leaves || leaves && took != time.Second {
					t.Errorf("it took %v", took)
				}
				if leaves {
					if r.End(); b.Used() != 0 {
						t.Errorf("%d are held", b.Used())
					}
					if _, err := io.ReadAll(r); err == nil {
						t.Error("half a body looks whole")
					}
					return
				}
				go func() {
					for _, more := range []string{"two ", "three"} {
						_, _ = io.WriteString(to, more)
					}
					_ = to.Close()
				}()
				var got bytes.Buffer
				if _, err := got.ReadFrom(r); err != nil || got.String() != "one two three" {
					t.Errorf("read %q, %v", &got, err)
				}
				if r.End(); b.Used() != 0 {
					t.Errorf("%d are held", b.Used())
				}
			})
		})
	}
}
