package snapshots

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"testing"
	"time"

	"cloister/serve/tenants"
)

// TestCut: a stream is the sum of its chunks, however it was written; their lengths are within the bounds, also of a
// stream of one byte, and those behind a change are as before.
func TestCut(t *testing.T) {
	k := &Keys{list: []key{{"k", bytes.Repeat([]byte{1}, keyBytes)}}}
	s, err := k.of("k", "cell", tenants.Tenant{Name: "acme", Created: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(text []byte, step int) (out []string) {
		var all []byte
		c := &cutter{gear: &s.gear, emit: func(chunk []byte) error {
			all = append(all, chunk...)
			out = append(out, s.name(chunk))
			if len(chunk) > mostChunk || len(chunk) < leastChunk && len(all) < len(text) {
				t.Errorf("a chunk of %d bytes", len(chunk))
			}
			return nil
		}}
		for from := 0; from < len(text); from += step {
			if _, err := c.Write(text[from:min(len(text), from+step)]); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.flush(); err != nil || !bytes.Equal(all, text) {
			t.Errorf("%d bytes of %d, %v", len(all), len(text), err)
		}
		return out
	}
	text := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8(sha256.Sum256(nil)).Read(text) // it cannot fail
	want := cut(text, len(text))
	if got := cut(text, 32<<10); len(got) != len(want) || got[len(got)-1] != want[len(want)-1] || len(want) < 8 {
		t.Errorf("%d chunks in steps, and %d at once", len(got), len(want))
	}
	changed := cut(append([]byte("before "), text...), 1<<20)
	same := 0
	for _, name := range changed {
		for _, was := range want {
			if name == was {
				same++
			}
		}
	}
	if same < len(want)-2 {
		t.Errorf("%d of %d chunks are as before", same, len(want))
	}
	cut(make([]byte, 9<<20), 1<<20)
	cut(nil, 1)
}
