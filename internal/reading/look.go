package reading

import "crypto/sha256"

// A Beginning is what was read of a request's body before the request goes up: the same
// bytes go up later, as they came.
type Beginning struct {
	Size     int64             // how much was read
	Sum      [sha256.Size]byte // of that
	Whole    bool              // nothing follows
	Late     bool              // what follows had not come in time; else it is too long
	Declared int64             // how long the request says that its body is, or -1
	Trailer  [][2]string       // the fields behind a whole body, as they are sent on
}
