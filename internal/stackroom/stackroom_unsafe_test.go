package stackroom_test

import (
	"testing"
	"unsafe"

	"cloister/internal/stackroom"
)

// deep uses so many kibibytes of stack, and tells where the last of them lies.
//
//go:noinline
func deep(n int, top *byte) uintptr {
	var frame [1 << 10]byte
	frame[n%len(frame)] = *top
	if n == 0 {
		return 0
	}
	return deep(n-1, &frame[0])
}

// A stack that need not grow is not moved: what points into it stays where it is.
func TestFor(t *testing.T) {
	moved := func(run func(func())) bool {
		out := make(chan bool)
		go func() {
			run(func() {
				var mark byte
				at := uintptr(unsafe.Pointer(&mark))
				deep(stackroom.Size>>10-8, &mark)
				out <- at != uintptr(unsafe.Pointer(&mark))
			})
		}()
		return <-out
	}
	if !moved(func(f func()) { f() }) {
		t.Skip("a stack of this Go has that much room anyway")
	}
	if moved(stackroom.For) {
		t.Error("the stack grew")
	}
}
