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
	zero               // the int32 at op.a[0] must be 0: a netlink answer's error code
	execute            // execve of op.a[0], argv op.a[1], env op.a[2]; a missing file tries the next
	readOnlyMount      // the flags at op.a[0] must have ST_RDONLY
	overlayMount       // the type at op.a[0] must be an overlay's
)

// op is one step. An argument is a plain value or, where its bit of refs is
// set, the address of an int32 that an earlier step or the kernel stored.
type op struct {
	kind   kind
	expect expect
	refs   uint8
	errnos [4]uint8 // of refused and or; every errno there is fits
	nr     uintptr
	a      [6]uintptr
	out    *int32
	value  int64
	name   string
}

// parts is in how many lists the enclosure is written: what every cloister has,
// its gate, and what this one has. The last step of each but the last waits
// until the next is written.
const (
	partView = iota
	partGate
	partRest
	parts
)

// program is the enclosure written down: setup runs in the first process
// inside, payload in the child that becomes the command, and afterFork in the
// first process again. keep holds every buffer that a step points to: the
// child shares this process's memory, and Go's heap does not move.
type program struct {
	setup     [parts][]op
	payload   []op
	afterFork []op
	keep      []any
	cells     []int32
	text      []byte
	list      *[]op
}

// About as many steps as a part takes, so that the lists do not grow by copying.
const (
	stepsOfView    = 256
	stepsOfGate    = 64
	stepsOfRest    = 512
	stepsOfPayload = 192
	stepsOfGuard   = 32
)

func newProgram() *program {
	p := &program{keep: make([]any, 0, 64)}
	p.in(&p.setup[partView], stepsOfView)
	return p
}

// in lets the next steps be added to a list, which has room for some already.
func (p *program) in(list *[]op, room int) {
	*list = make([]op, 0, room)
	p.list = list
}

func (p *program) add(o op) *op {
	*p.list = append(*p.list, o)
	return &(*p.list)[len(*p.list)-1]
}

// sys adds a system call that must succeed.
func (p *program) sys(name string, nr uintptr, args ...any) *op {
	o := op{nr: nr, name: name}
	for i, a := range args {
		var ref bool
		if o.a[i], ref = p.arg(a); ref {
			o.refs |= 1 << i
		}
	}
	return p.add(o)
}

// arg turns a Go value into a register: numbers as they are, *int32 read when
// the step runs, strings and buffers by address.
func (p *program) arg(a any) (value uintptr, ref bool) {
	switch v := a.(type) {
	case int:
		return uintptr(v), false
	case uintptr:
		return v, false
	case uint64:
		return uintptr(v), false
	case uint32:
		return uintptr(v), false
	case *int32:
		return addressOf(v), true
	case string:
		return p.str(v), false
	case []byte:
		return p.buf(v), false
	case pointer:
		p.keep = append(p.keep, v.keep)
		return v.addr, false
	}
	panic(fmt.Sprintf("native: argument of type %T", a))
}

// str gives the address of a NUL-terminated copy of s. Copies lie side by side
// in blocks that never grow.
func (p *program) str(s string) uintptr {
	const block = 8 << 10
	if cap(p.text)-len(p.text) < len(s)+1 {
		p.text = make([]byte, 0, max(block, len(s)+1))
		p.keep = append(p.keep, p.text)
	}
	at := len(p.text)
	p.text = append(append(p.text, s...), 0)
	return addressOf(&p.text[at])
}

func (p *program) buf(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	p.keep = append(p.keep, b)
	return addressOf(&b[0])
}

// cell is a place for a result, at an address that does not move.
func (p *program) cell() *int32 {
	const block = 256
	if len(p.cells) == cap(p.cells) {
		p.cells = make([]int32, 0, block)
		p.keep = append(p.keep, p.cells)
	}
	p.cells = append(p.cells, -1)
	return &p.cells[len(p.cells)-1]
}

func (o *op) to(c *int32) { o.out = c }

func (o *op) want(v int64) { o.expect, o.value = equal, v }

func (o *op) optional() { o.expect = ignore }

func (o *op) refused(errnos ...unix.Errno) {
	o.expect = failWith
	o.among(errnos)
}

func (o *op) or(errnos ...unix.Errno) *op {
	o.expect = proceed
	o.among(errnos)
	return o
}

func (o *op) among(errnos []unix.Errno) {
	for i, e := range errnos {
		o.errnos[i] = uint8(e)
	}
}

// look adds a step that looks at what an earlier one stored.
func (p *program) look(k kind, at *int32, name string) {
	p.add(op{kind: k, a: [6]uintptr{addressOf(at)}, name: name})
}

// alive keeps the program's buffers until the child is done with them.
func (p *program) alive() { runtime.KeepAlive(p) }
