package store_test

import (
	"errors"
	"testing"
)

// A checkpoint that is killed while it holds a cloister still leaves a note, by which the
// session lets it go on.
func TestAKilledCheckpointHoldsNothingStill(t *testing.T) {
	w := newWorld(t)
	use, err := w.store.Begin("k", w.project, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = use.Close() })
	ws := w.lock("k")
	var still bool // what processes are
	killed := errors.New("killed")
	freeze := func(end error) func() (func() error, error) {
		return func() (func() error, error) {
			still = true
			if !use.HeldStill() {
				t.Error("it is held still without a note")
			}
			return func() error {
				if end == nil {
					still = false
				}
				return end
			}, nil
		}
	}
	if _, err := ws.Save(t.Context(), "", false, freeze(nil)); err != nil || still || use.HeldStill() {
		t.Fatalf("control: %v, still %t, noted %t", err, still, use.HeldStill())
	}
	if _, err := ws.Save(t.Context(), "", false, freeze(killed)); !errors.Is(err, killed) || !still || !use.HeldStill() {
		t.Fatalf("%v, still %t, noted %t", err, still, use.HeldStill())
	}
	if err := ws.GoOn(freeze(nil)); err != nil || still || use.HeldStill() {
		t.Fatalf("%v, still %t, noted %t", err, still, use.HeldStill())
	}
	if err := ws.GoOn(freeze(killed)); err != nil {
		t.Fatal("without a note nothing is done:", err)
	}
}
