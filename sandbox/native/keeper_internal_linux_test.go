package native

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// What the keeper cannot do because the cloister ends by itself is no reason to end
// it, however long a busy kernel takes; what it cannot do in one that lives is.
func TestUnlessGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		takes time.Duration // 0 for a cloister that lives
		told  bool
	}{
		{"the command has ended", fmt.Errorf("cover: %w", errEnded), 5 * time.Second, false},
		{"its process has gone", fmt.Errorf("cover: %w", unix.ESRCH), 5 * time.Second, false},
		{"it has no mounts any more", fmt.Errorf("cover: %w", unix.EINVAL), 5 * time.Second, false},
		{"another error of one that ends", unix.EACCES, 100 * time.Millisecond, false},
		{"another error", unix.EACCES, 0, true},
		{"no command, and it lives", errEnded, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &box{gone: make(chan struct{})}
				if c.takes > 0 {
					time.AfterFunc(c.takes, func() { close(b.gone) })
				}
				if err := b.unlessGone(c.err); c.told != (err != nil) || err != nil && !errors.Is(err, c.err) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
