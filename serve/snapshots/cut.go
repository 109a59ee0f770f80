package snapshots

// Bounds of a chunk, in bytes. Beyond the least a chunk ends at each byte with a chance of one in 2^20.
const (
	leastChunk = 256 << 10
	mostChunk  = 4 << 20
	cutBits    = 20
	cutWindow  = 64 // bytes that say whether a stream is cut behind them
)

// cutter cuts a stream where its own bytes say so, so that one which was changed at a place has the same chunks
// elsewhere: a rolling hash by random numbers ("gear"), which are of the tenant's keys.
type cutter struct {
	gear *[256]uint64
	emit func(chunk []byte) error
	have []byte
	hash uint64
}

// Write cuts what there is.
func (c *cutter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i, ends := c.next(p)
		c.have = append(c.have, p[:i]...)
		p = p[i:]
		if !ends {
			continue
		}
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// next gives how many bytes belong to the chunk, and whether it ends with them.
func (c *cutter) next(p []byte) (n int, ends bool) {
	at, hash := len(c.have), c.hash // in registers: this loop is most of what a snapshot costs
	for i, b := range p {
		if at++; at > leastChunk-cutWindow {
			hash = hash<<1 + c.gear[b]
		}
		if at == mostChunk || at >= leastChunk && hash>>(64-cutBits) == 0 {
			c.hash = hash
			return i + 1, true
		}
	}
	c.hash = hash
	return len(p), false
}

// flush ends the chunk, and the stream.
func (c *cutter) flush() error {
	if len(c.have) == 0 {
		return nil
	}
	chunk := c.have
	c.have, c.hash = nil, 0
	return c.emit(chunk)
}
