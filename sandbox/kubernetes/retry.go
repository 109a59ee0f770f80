package kubernetes

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"
)

// What an API server answers that is busy, or on its way out, or has lost its store for a moment, is
// tried again for a while: kubectl gives the answer's reason in brackets, as the API has it
// (metav1.StatusReason). What it says of the request itself is not.
var answered = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:E\d+.*\n)*(?:error: )?Error from server(?: \(([A-Za-z]+)\))?:`)
})

// reasonOf is the API's word for a refusal; empty for one of kubectl's own.
func reasonOf(err error) string {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return ""
	}
	found := answered().FindStringSubmatch(r.text)
	if found == nil {
		return ""
	}
	return found[1]
}

// passing are the reasons that another attempt may find gone.
var passing = []string{"TooManyRequests", "InternalError", "ServiceUnavailable", "ServerTimeout", "Timeout", "Conflict"}

const (
	// tries bounds the attempts, and between them the wait doubles.
	tries      = 6
	firstPause = 250 * time.Millisecond
)

// insist makes a call until the API server answers it for good. A pod that is there already after an
// attempt that failed is that attempt's: its name is of one session.
func (d *Driver) insist(ctx context.Context, in []byte, args ...string) (err error) {
	pause := firstPause
	for n := range tries {
		_, err = d.call(ctx, in, args...)
		reason := reasonOf(err)
		if n > 0 && args[0] == "create" && reason == "AlreadyExists" {
			return nil
		}
		if err == nil || !slices.Contains(passing, reason) {
			return err
		}
		if werr := wait(ctx, pause); werr != nil {
			return errors.Join(err, werr)
		}
		pause *= 2
	}
	return err
}
