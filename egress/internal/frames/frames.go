// Package frames keeps bytes of a WebSocket in their order while some of its data is
// held back.
//
// Promise: what was put in comes out in the order in which it came, whatever of the data
// came late; Full says when more waits than a bound.
//
// It reads no frame (wire.FrameScan does) and looks at no data.
//
// Most readers want [Order].
package frames

// most is how much may wait behind data that is held back.
const most = 64 << 10

// A run is a number of bytes of data that are to come, or bytes that wait for them.
type run struct {
	holes int
	bytes []byte
}

// An Order is one direction. The zero Order has nothing waiting.
type Order struct {
	runs    []run
	waiting int
}

// Behind appends b to out, or keeps it behind the data that is to come first.
func (o *Order) Behind(out, b []byte) []byte {
	n := len(o.runs)
	if n == 0 {
		return append(out, b...)
	}
	o.waiting += len(b)
	if o.runs[n-1].holes > 0 {
		o.runs = append(o.runs, run{})
		n++
	}
	o.runs[n-1].bytes = append(o.runs[n-1].bytes, b...)
	return out
}

// Data says that came bytes of data have come, and made are ready, of these or of those
// before. It appends to out what may go on.
func (o *Order) Data(out, made []byte, came int) []byte {
	if n := len(o.runs); n > 0 && o.runs[n-1].holes > 0 {
		o.runs[n-1].holes += came
	} else if came > 0 {
		o.runs = append(o.runs, run{holes: came})
	}
	for len(o.runs) > 0 {
		first := &o.runs[0]
		if first.holes == 0 {
			o.waiting -= len(first.bytes)
			out = append(out, first.bytes...)
			o.runs = o.runs[1:]
			continue
		}
		n := min(first.holes, len(made))
		out, made = append(out, made[:n]...), made[n:]
		if first.holes -= n; first.holes > 0 {
			return out
		}
		o.runs = o.runs[1:]
	}
	o.runs = nil
	return out
}

// Full says that too much waits.
func (o *Order) Full() bool { return o.waiting > most }
