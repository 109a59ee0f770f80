package native

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// expect says which answer of a system call lets the program go on.
type expect uint8

const (
	succeed  expect = iota // any result but an error
	equal                  // exactly the value in op.value
	failWith               // one of op.errnos: the call must be refused
	ignore                 // any answer
	proceed                // success, or one of op.errnos
)

// kind tells system calls from the few steps that are not one call.
type kind uint8

const (
	call          kind = iota
	zero               // the int32 at *op.ref[0] must be 0: a netlink answer's error code
	execute            // execve of op.a[0], argv op.a[1], env op.a[2]; a missing file tries the next
	readOnlyMount      // the flags at *op.ref[0] must have ST_RDONLY
)

// op is one step. An argument is a plain value, or the int32 that an earlier
// step stored, when ref is set.
type op struct {
	kind   kind
	expect expect
	nr     uintptr
	a      [6]uintptr
	ref    [6]*int32
	out    *int32
	value  int64
	errnos [4]unix.Errno
	name   string
}

// program is the enclosure written down: setup runs in the first process
// inside, payload in the child that becomes the command, and afterFork in the
// first process again. keep holds every buffer that a step points to: the
// child shares this process's memory, and Go's heap does not move.
type program struct {
	setup     []op
	payload   []op
	afterFork []op
	keep      []any
	list      *[]op
}

func newProgram() *program {
	// As many steps as a start takes, so that the lists do not grow by copying.
	p := &program{setup: make([]op, 0, 1024), keep: make([]any, 0, 1024)}
	p.list = &p.setup
	return p
}

func (p *program) in(list *[]op) { p.list = list }

func (p *program) add(o op) *op {
	*p.list = append(*p.list, o)
	return &(*p.list)[len(*p.list)-1]
}

// sys adds a system call that must succeed.
func (p *program) sys(name string, nr uintptr, args ...any) *op {
	o := op{nr: nr, name: name}
	for i, a := range args {
		o.a[i], o.ref[i] = p.arg(a)
	}
	return p.add(o)
}

// arg turns a Go value into a register: numbers as they are, *int32 read when
// the step runs, strings and buffers by address.
func (p *program) arg(a any) (uintptr, *int32) {
	switch v := a.(type) {
	case int:
		return uintptr(v), nil
	case uintptr:
		return v, nil
	case uint64:
		return uintptr(v), nil
	case uint32:
		return uintptr(v), nil
	case *int32:
		return 0, v
	case string:
		return p.str(v), nil
	case []byte:
		return p.buf(v), nil
	case pointer:
		p.keep = append(p.keep, v.keep)
		return v.addr, nil
	}
	panic(fmt.Sprintf("native: argument of type %T", a))
}

// str gives the address of a NUL-terminated copy of s.
func (p *program) str(s string) uintptr {
	return p.buf(append([]byte(s), 0))
}

func (p *program) buf(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	p.keep = append(p.keep, b)
	return addressOf(&b[0])
}

// value is a place for a result, at an address that does not move.
func (p *program) cell() *int32 {
	c := new(int32)
	*c = -1
	p.keep = append(p.keep, c)
	return c
}

func (o *op) to(c *int32) { o.out = c }

func (o *op) want(v int64) { o.expect, o.value = equal, v }

func (o *op) optional() { o.expect = ignore }

func (o *op) refused(errnos ...unix.Errno) {
	o.expect = failWith
	copy(o.errnos[:], errnos)
}

func (o *op) or(errnos ...unix.Errno) *op {
	o.expect = proceed
	copy(o.errnos[:], errnos)
	return o
}

// alive keeps the program's buffers until the child is done with them.
func (p *program) alive() { runtime.KeepAlive(p) }
