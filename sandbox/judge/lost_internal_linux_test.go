package judge

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/kernel/lsm"
	"cloister/sandbox"
)

// double is a session whose programs are gone, or whose events are.
type double struct {
	read, counts, freeze error
	did                  []string
	drained              chan struct{}
}

func (d *double) Read(time.Time) (lsm.Event, error) {
	if d.read == nil {
		<-d.drained
		return lsm.Event{}, io.EOF
	}
	return lsm.Event{}, d.read
}

func (d *double) Replace(lsm.Policy) error { return nil }

func (d *double) Counts() (lsm.Counts, error) { return lsm.Counts{}, d.counts }

func (d *double) Freeze() error {
	d.did = append(d.did, "freeze")
	return d.freeze
}

func (d *double) Drain() error {
	close(d.drained)
	return nil
}

func (d *double) Close() error {
	d.did = append(d.did, "close")
	return nil
}

// A session that lost what judges it is frozen before anybody hears of it, and is over once.
func TestLost(t *testing.T) {
	missing, broken, stuck := errors.New("no such session"), errors.New("bytes that are none"), errors.New("no such group")
	for name, c := range map[string]struct {
		s    double
		want []error
	}{
		"its record is gone":     {double{read: os.ErrDeadlineExceeded, counts: missing}, []error{missing}},
		"its events are broken":  {double{read: broken}, []error{broken}},
		"it cannot be frozen":    {double{read: broken, freeze: stuck}, []error{broken, stuck}},
		"nothing":                {double{}, nil},
		"nothing, after a while": {double{counts: missing}, nil}, // at its end the record may be gone before
	} {
		t.Run(name, func(t *testing.T) {
			s := c.s
			s.drained = make(chan struct{})
			var lost []error
			j := &Judge{session: &s, reported: make(chan struct{})}
			go j.watch(newTeller(func(sandbox.FileEvent) {}), func(err error) {
				s.did = append(s.did, "lost")
				lost = append(lost, err)
			})
			if c.want != nil {
				<-j.reported // it ends by itself
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			did := []string{"close"}
			if c.want != nil {
				did = []string{"freeze", "lost", "close"}
			}
			if !slices.Equal(s.did, did) || len(lost) != min(1, len(c.want)) {
				t.Fatalf("it did %q, lost %v", s.did, lost)
			}
			for _, want := range c.want {
				if !errors.Is(lost[0], want) || !strings.Contains(lost[0].Error(), "judge of files is gone") {
					t.Errorf("it says %v, not %v", lost[0], want)
				}
			}
		})
	}
}
