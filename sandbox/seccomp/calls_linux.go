package seccomp

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Call is one line of the filter's table.
type Call struct {
	Name string
	NR   uint32
}

// Absent answer ENOSYS instead of EPERM: libraries try them first and fall
// back to older calls whose arguments the filter can see. clone3 takes its
// flags through memory, openat2 its mode; io_uring is a second table of system
// calls. The contexts of io_setup come out of one number for the whole machine
// (fs.aio-max-nr, 65,536): one payload could take them all, and databases of the
// host could not start.
var Absent = []Call{
	{"clone3", unix.SYS_CLONE3},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER},
	{"io_setup", unix.SYS_IO_SETUP},
	{"io_destroy", unix.SYS_IO_DESTROY},
	{"io_submit", unix.SYS_IO_SUBMIT},
	{"io_cancel", unix.SYS_IO_CANCEL},
	{"io_getevents", unix.SYS_IO_GETEVENTS},
	{"io_pgetevents", unix.SYS_IO_PGETEVENTS},
	{"openat2", unix.SYS_OPENAT2}, // its mode lies behind a pointer
}

// Tracing are the calls by which a debugger works. The kernel lets a process trace
// only what it could signal, that is dumpable and, behind Landlock, in its own or a
// nested domain: not the first process, which hides its memory, and no other command
// of the cloister, each of which has a domain of its own. Where there is no Landlock
// they stay refused.
var Tracing = []Call{
	{"ptrace", unix.SYS_PTRACE},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV},
	{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV},
}

// NamespaceFlags may be given neither to clone nor to unshare.
const NamespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// Answers of the filter.
const (
	answerAllow = unix.SECCOMP_RET_ALLOW
	answerPerm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	answerNosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	answerAF    = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	answerProto = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
	answerKill  = unix.SECCOMP_RET_KILL_PROCESS
)

// Offsets in struct seccomp_data. Arguments are 64 bits wide; the filter
// compares the lower half, which is what the kernel uses of an int, and where a
// number must be small, requires the upper half to be zero.
const (
	offNR   = 0
	offArch = 4
	offArgs = 16
)

func argLow(i int) uint32  { return uint32(offArgs + 8*i) }
func argHigh(i int) uint32 { return uint32(offArgs + 8*i + 4) }

// personalities are the harmless ones: the default, 32-bit reporting, their
// forms without address randomisation, and the question.
var personalities = []uint32{0x0, 0x8, 0x20000, 0x20008, 0xffffffff}

// forbiddenIoctls push bytes into a terminal's input or select from its screen.
// The others are btrfs's: a file of the project names the subvolume that it lies
// in, and kernels before 6.7 make a snapshot of all of that, the person's home for
// one, at a place in the project (include/uapi/linux/btrfs.h).
var forbiddenIoctls = []uint32{
	unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCCONS,
	0x50009401, // BTRFS_IOC_SNAP_CREATE
	0x50009417, // BTRFS_IOC_SNAP_CREATE_V2
	0x5000940e, // BTRFS_IOC_SUBVOL_CREATE
	0x50009418, // BTRFS_IOC_SUBVOL_CREATE_V2
	0x5000940f, // BTRFS_IOC_SNAP_DESTROY
	0x5000943f, // BTRFS_IOC_SNAP_DESTROY_V2
}

// forbiddenPrctls change what the kernel believes about a process's memory, or
// take the first process's duties over.
var forbiddenPrctls = []uint32{unix.PR_SET_MM, unix.PR_SET_SECUREBITS, unix.PR_SCHED_CORE}

// forbiddenFcntls lease a file or a folder of the project: whoever opens it then,
// a program of the host's too, waits for 45 s each time (fcntl(2), /proc/sys/fs/
// lease-break-time).
var forbiddenFcntls = []uint32{
	unix.F_SETLEASE,
	unix.F_SETLEASE + 16, // F_SETDELEG, of 6.19
}

// forbiddenOptions give a socket another protocol than socketRules allow: the
// kernel's TLS and its kin, and IPsec within UDP.
var forbiddenOptions = []struct{ level, option uint32 }{
	{unix.SOL_TCP, unix.TCP_ULP},
	{unix.SOL_UDP, unix.UDP_ENCAP},
}

// Filter compiles the table, with the calls of Tracing or without. Every block ends
// in an answer, so that blocks can be read, and tested, one by one.
func Filter(tracing bool) ([]unix.SockFilter, error) {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: answerKill},
		bpf.LoadAbsolute{Off: offNR, Size: 4},
		// x32 calls share the architecture's number with bit 30 set.
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 0x40000000, SkipTrue: 1},
		bpf.RetConstant{Val: answerNosys},
	}
	block := func(nr uint32, body []bpf.Instruction) {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: uint8(len(body))})
		prog = append(prog, body...)
	}
	for _, c := range Absent {
		block(c.NR, []bpf.Instruction{bpf.RetConstant{Val: answerNosys}})
	}
	if tracing {
		for _, c := range Tracing {
			block(c.NR, []bpf.Instruction{bpf.RetConstant{Val: answerAllow}})
		}
	}
	block(unix.SYS_SOCKET, socketRules())
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		block(nr, []bpf.Instruction{
			bpf.LoadAbsolute{Off: argLow(0), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: NamespaceFlags, SkipTrue: 1},
			bpf.RetConstant{Val: answerPerm},
			bpf.RetConstant{Val: answerAllow},
		})
	}
	block(unix.SYS_IOCTL, noneOf(argLow(1), forbiddenIoctls))
	block(unix.SYS_FCNTL, noneOf(argLow(1), forbiddenFcntls))
	block(unix.SYS_SETSOCKOPT, optionRules())
	block(unix.SYS_PRCTL, noneOf(argLow(0), forbiddenPrctls))
	block(unix.SYS_PERSONALITY, oneOf(argLow(0), personalities))
	// A filter may be added, for programs that have sandboxes of their own, but
	// no listener: it could answer for a process that was judged before.
	block(unix.SYS_SECCOMP, []bpf.Instruction{
		bpf.LoadAbsolute{Off: argLow(1), Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, SkipTrue: 1},
		bpf.RetConstant{Val: answerPerm},
		bpf.RetConstant{Val: answerAllow},
	})
	for _, m := range modeCalls {
		block(m.NR, m.rules())
	}
	prog = append(prog,
		bpf.LoadAbsolute{Off: offNR, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: Newest, SkipFalse: 1},
		bpf.RetConstant{Val: answerNosys},
	)
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("assemble the system call filter: %w", err)
	}
	spans := ranges(Allowed)
	out := make([]unix.SockFilter, len(raw), len(raw)+searchLength(len(spans)))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	out = search(out, spans)
	if len(out) > math.MaxUint16 {
		return nil, fmt.Errorf("assemble the system call filter: %d instructions", len(out))
	}
	return out, nil
}

// modeCall is a call that can give a file its set-id bits: mode is the argument
// that says so, and flags the one that must say create for mode to count, or -1.
type modeCall struct {
	Call
	mode, flags int
}

// rules refuse a mode with a set-id bit. The workspace's files are the host
// user's (root's, when root starts the cloister): a program that the payload
// made set-user-id would run as them for every user of the host.
func (m modeCall) rules() []bpf.Instruction {
	const (
		setID  = unix.S_ISUID | unix.S_ISGID
		create = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	)
	check := []bpf.Instruction{
		bpf.LoadAbsolute{Off: argLow(m.mode), Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: setID, SkipTrue: 1},
		bpf.RetConstant{Val: answerPerm},
		bpf.RetConstant{Val: answerAllow},
	}
	if m.flags < 0 {
		return check
	}
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: argLow(m.flags), Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: create, SkipTrue: 1},
		bpf.RetConstant{Val: answerAllow},
	}, check...)
}

// span is a run of neighbouring numbers, both ends included.
type span struct{ first, last uint32 }

// ranges are the numbers of the table as spans in order.
func ranges(table []Call) []span {
	byNumber := func(a, b Call) int { return cmp.Compare(a.NR, b.NR) }
	if !slices.IsSortedFunc(table, byNumber) {
		table = slices.SortedFunc(slices.Values(table), byNumber)
	}
	out := make([]span, 0, len(table)/2)
	for _, c := range table {
		if n := len(out); n > 0 && out[n-1].last+1 == c.NR {
			out[n-1].last = c.NR
			continue
		}
		out = append(out, span{c.NR, c.NR})
	}
	return out
}

// search adds a binary search of the number in the accumulator. The kernel tries
// the filter for every number when it is installed, so its depth is part of
// every start: a list of equals cost 0.9 ms, this 0.1.
func search(prog []unix.SockFilter, spans []span) []unix.SockFilter {
	// jump goes on, if the number is at least or greater, yes instructions
	// later, else no.
	jump := func(cond uint16, than uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | cond, K: than, Jt: yes, Jf: no}
	}
	if len(spans) == 1 {
		return append(prog,
			jump(unix.BPF_JGE, spans[0].first, 0, 2),
			jump(unix.BPF_JGT, spans[0].last, 1, 0),
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answerAllow},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answerPerm},
		)
	}
	half := len(spans) / 2
	// The jump over the lower half may be longer than 8 bits hold.
	prog = append(prog,
		jump(unix.BPF_JGE, spans[half].first, 0, 1),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(searchLength(half))},
	)
	return search(search(prog, spans[:half]), spans[half:])
}

// searchLength is how many instructions a search in so many spans has.
func searchLength(spans int) int {
	if spans == 1 {
		return 4
	}
	return 2 + searchLength(spans/2) + searchLength(spans-spans/2)
}

// socketRules allow the three families with stream, datagram or seqpacket and
// their default protocol or TCP or UDP, and netlink for routes only.
func socketRules() []bpf.Instruction {
	const typeMask = 0xf // the upper bits are SOCK_CLOEXEC and SOCK_NONBLOCK
	// The netlink block lies last; inet types and protocols lie before it.
	inet := []bpf.Instruction{
		bpf.LoadAbsolute{Off: argLow(1), Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: typeMask},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1},
		bpf.RetConstant{Val: answerPerm},
		bpf.LoadAbsolute{Off: argLow(2), Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_TCP, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 1},
		bpf.RetConstant{Val: answerAllow},
		bpf.RetConstant{Val: answerProto},
	}
	netlinkRoute := []bpf.Instruction{
		bpf.LoadAbsolute{Off: argLow(2), Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1},
		bpf.RetConstant{Val: answerPerm},
		bpf.RetConstant{Val: answerAllow},
	}
	head := []bpf.Instruction{
		bpf.LoadAbsolute{Off: argHigh(0), Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		bpf.RetConstant{Val: answerAF},
		bpf.LoadAbsolute{Off: argLow(0), Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_UNIX, SkipTrue: 1},
		bpf.RetConstant{Val: answerAllow},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipTrue: uint8(3 + len(inet))},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 1},
		bpf.RetConstant{Val: answerAF},
	}
	return append(append(head, inet...), netlinkRoute...)
}

// optionRules allow every option of a socket but the listed.
func optionRules() []bpf.Instruction {
	var out []bpf.Instruction
	for _, o := range forbiddenOptions {
		out = append(out,
			bpf.LoadAbsolute{Off: argLow(1), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: o.level, SkipTrue: 3},
			bpf.LoadAbsolute{Off: argLow(2), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: o.option, SkipTrue: 1},
			bpf.RetConstant{Val: answerPerm},
		)
	}
	return append(out, bpf.RetConstant{Val: answerAllow})
}

// noneOf allows unless the lower half of the argument is listed. The kernel
// reads an ioctl's request and a prctl's option as 32 bits, so the upper half
// is left out on purpose (CVE-2019-10063).
func noneOf(offset uint32, values []uint32) []bpf.Instruction {
	out := []bpf.Instruction{bpf.LoadAbsolute{Off: offset, Size: 4}}
	for _, v := range values {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, bpf.RetConstant{Val: answerPerm})
	}
	return append(out, bpf.RetConstant{Val: answerAllow})
}

func oneOf(offset uint32, values []uint32) []bpf.Instruction {
	out := []bpf.Instruction{bpf.LoadAbsolute{Off: offset, Size: 4}}
	for _, v := range values {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, bpf.RetConstant{Val: answerAllow})
	}
	return append(out, bpf.RetConstant{Val: answerPerm})
}

// Judged are the calls of which the filter looks at the arguments.
func Judged() []Call {
	out := []Call{
		{"socket", unix.SYS_SOCKET}, {"clone", unix.SYS_CLONE}, {"unshare", unix.SYS_UNSHARE}, {"ioctl", unix.SYS_IOCTL},
		{"fcntl", unix.SYS_FCNTL}, {"setsockopt", unix.SYS_SETSOCKOPT},
		{"prctl", unix.SYS_PRCTL}, {"personality", unix.SYS_PERSONALITY}, {"seccomp", unix.SYS_SECCOMP},
	}
	for _, m := range modeCalls {
		out = append(out, m.Call)
	}
	return out
}
