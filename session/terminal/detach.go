package terminal

import "time"

const (
	ctrlP = 0x10
	ctrlQ = 0x11
	// heldFor is how long a Ctrl-P waits for the Ctrl-Q behind it. A later
	// Ctrl-Q still detaches, but the program has seen the Ctrl-P.
	heldFor = time.Second
)

// detachKeys finds Ctrl-P Ctrl-Q in what is typed.
type detachKeys struct {
	held  bool // a Ctrl-P has not been passed on
	after bool // the last byte was a Ctrl-P
	// other takes another key right behind a Ctrl-P, or leaves it to the program.
	other func(key byte) bool
}

func (k *detachKeys) pass(typed []byte) (out []byte, detach bool) {
	for _, b := range typed {
		if k.after && b == ctrlQ {
			return out, true
		}
		if k.held && k.other != nil && k.other(b) {
			k.held, k.after = false, false
			continue
		}
		if k.held {
			out = append(out, ctrlP)
		}
		k.held, k.after = b == ctrlP, b == ctrlP
		if !k.held {
			out = append(out, b)
		}
	}
	return out, false
}

// late gives up a Ctrl-P that has waited long enough.
func (k *detachKeys) late() []byte {
	k.held = false
	return []byte{ctrlP}
}
