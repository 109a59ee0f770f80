// Package buffer keeps the memory that copies between two connections pass through.
//
// Promise: a buffer that was put back is used again before another is made, by all
// copies of an engine.
//
// It does not bound how many there are: its user holds one no longer than a read.
//
// Most readers want [Pool.Get].
package buffer

import "sync"

// Size is that of one buffer.
const Size = 32 << 10

// A Pool is shared by all copies of an engine.
type Pool struct{ pool sync.Pool }

// Get is a buffer that holds anything.
func (b *Pool) Get() *[Size]byte {
	if p, ok := b.pool.Get().(*[Size]byte); ok {
		return p
	}
	return new([Size]byte)
}

// Put gives a buffer back.
func (b *Pool) Put(p *[Size]byte) { b.pool.Put(p) }
