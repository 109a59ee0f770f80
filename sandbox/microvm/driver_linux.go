package microvm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/microvm/monitor"
	"cloister/sandbox/native"
	"cloister/sandbox/onhost"
	"cloister/sandbox/plan"
)

// Name is the word of --isolation.
const Name = "microvm"

// Residue is the word for --accept where the machine is emulated.
const Residue = "microvm-emulated"

// ResidueEngine is the word for --accept of a private container engine in the guest. Whoever may
// use one is root there: of the guest's own walls none is left, and those around it hold.
const ResidueEngine = "microvm-engine"

// Driver encloses with a machine.
type Driver struct {
	native *native.Driver
	o      Options
}

// Options are what the driver needs to know.
type Options struct {
	Instance string // the folder of its sockets, which tells instances apart
	Kernel   string // the folder that a kernel is installed in
	Program  string // this program, which is the guest's first process and the machine's monitor
	Path     []string
	// Trusted gives a program's path without links, and refuses one that another user
	// or a payload could have changed. Nil takes every path as it is.
	Trusted func(path string) (string, error)
}

// New gives the driver of an instance.
func New(o Options) *Driver { return &Driver{native: native.New(o.Instance), o: o} }

// What this driver's boxes can besides.
var (
	_ sandbox.Dialer  = (*box)(nil)
	_ sandbox.Resizer = (*box)(nil)
	_ sandbox.Hosted  = (*box)(nil)
)

// Hold holds what runs in a box still: the machine itself.
func (*Driver) Hold(h sandbox.Handle) (thaw func() error, err error) { return onhost.Hold(h) }

var _ sandbox.SlowStarter = (*Driver)(nil)

// StartWithin bounds a start: what a guest may take to boot, another one that becomes its template, and the rest.
func (*Driver) StartWithin() time.Duration { return (2*bootWithin + 30) * time.Second }

// Name is "microvm".
func (*Driver) Name() string { return Name }

// Start builds the enclosure, boots the machine in it, and starts the command on that.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	k, err := d.installed()
	if err != nil {
		return nil, err
	}
	kvm := k.accelerated()
	if !kvm && !slices.Contains(s.Accepted, Residue) {
		return nil, emulated(k)
	}
	return d.start(ctx, s, w, kvm, d.template)
}

// beginning is what opens the template that a machine begins from; nil: it boots.
type beginning func(context.Context, parts, monitor.Order) (f *os.File, digest string, err error)

func (d *Driver) start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring, kvm bool, begin beginning,
) (sandbox.Box, error) {
	if err := refuse(s); err != nil {
		return nil, err
	}
	p, err := d.parts()
	if err != nil {
		return nil, err
	}
	if s, err = withEngine(s, p.kernel); err != nil {
		return nil, err
	}
	order, err := d.order(s, w, p, kvm)
	if err != nil {
		return nil, err
	}
	from, digest, err := begin(ctx, p, order)
	if err != nil {
		return nil, err
	}
	order.Template = digest
	h, err := hosted(p, order)
	if err != nil {
		return nil, err
	}
	if from != nil {
		defer from.Close()
		h.Pass = []*os.File{from}
	}
	return d.attach(ctx, s, w, h, monitor.RoleBox, func(w sandbox.Wiring, h native.Hosted) (sandbox.Box, error) {
		return d.native.StartHosted(ctx, s, w, h)
	})
}

// hosted is the monitor of a machine.
func hosted(p parts, o monitor.Order) (native.Hosted, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return native.Hosted{}, fmt.Errorf("start microvm: %w", err)
	}
	h := native.Hosted{
		Program: sandbox.HostPath(p.program), System: true,
		Files: []sandbox.File{{Path: monitor.OrderPath, Data: text, Mode: 0o444}},
		Beside: []sandbox.Bind{
			{Source: sandbox.HostPath(p.kernel.ImageFile()), Target: monitor.KernelPath, File: true},
			{Source: sandbox.HostPath(p.initrd), Target: monitor.InitrdPath, File: true},
		},
	}
	if o.KVM {
		h.Devices = []string{"kvm"}
	}
	return h, nil
}

// Exec runs one more command on a machine.
func (d *Driver) Exec(ctx context.Context, b sandbox.Handle, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	if err := refuse(s); err != nil {
		return nil, err
	}
	program, err := d.program()
	if err != nil {
		return nil, err
	}
	order := monitor.Order{State: native.StatePath, Command: command(s, w)}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("start microvm: %w", err)
	}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("start microvm: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	defer f.Close()
	if _, err := f.WriteAt(text, 0); err != nil {
		return nil, fmt.Errorf("start microvm: %w", err)
	}
	h := native.Hosted{Program: sandbox.HostPath(program), Pass: []*os.File{f}}
	return d.attach(ctx, s, w, h, monitor.RoleMore, func(w sandbox.Wiring, h native.Hosted) (sandbox.Box, error) {
		return d.native.ExecHosted(b, s, w, h)
	})
}

// attach has the enclosure built or joined, and waits until the command runs.
func (d *Driver) attach(ctx context.Context, s sandbox.Spec, w sandbox.Wiring, h native.Hosted, role string,
	build func(sandbox.Wiring, native.Hosted) (sandbox.Box, error),
) (sandbox.Box, error) {
	hear, report, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start microvm: %w", err)
	}
	h.Pass = append([]*os.File{report}, h.Pass...)
	h.Command = func(pass []int) (argv, env []string) {
		argv = []string{monitor.Name, role}
		for _, fd := range pass {
			argv = append(argv, strconv.Itoa(fd))
		}
		return argv, []string{"PATH=/usr/bin:/bin"}
	}
	b, err := build(w, h)
	report.Close()
	if err != nil {
		hear.Close()
		if e, ok := errors.AsType[*sandbox.ExecError](err); ok {
			return nil, lacking(fmt.Sprintf("%s cannot be executed: %v", h.Program, e.Err), "")
		}
		return nil, err
	}
	return begun(ctx, b, hear, s)
}

// order is the machine of a Spec.
func (d *Driver) order(s sandbox.Spec, w sandbox.Wiring, p parts, kvm bool) (monitor.Order, error) {
	memory, err := memoryOf(s.Limits)
	if err != nil {
		return monitor.Order{}, err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return monitor.Order{}, fmt.Errorf("start microvm: look at limits: %w", err)
	}
	return monitor.Order{
		Layers: monitor.LeftOut(),
		QEMU:   p.qemu, Server: p.server, Memory: memory, CPUs: cpusOf(s.Limits), KVM: kvm, Code: codeOf(s.Limits),
		View: native.ViewPath, State: native.StatePath, Boot: bootWithin, Writable: plan.Writable(s), Command: command(s, w),
		Setup: monitor.Setup{Host: plan.Hostname(s.Name), Network: s.Network, Pids: uint64(plan.Pids(s.Limits)),
			Files: min(files.Cur, 1<<20), Terminal: sandbox.MaxTerminals,
			Tmp:    !plan.ShowsBelow(s, "/tmp") && !plan.ShowsBelow(s, "/var/tmp"),
			Engine: engineOf(s), User: s.User.ID},
	}, nil
}

// bootWithin is how many seconds a guest may take: an emulated one on a machine that is busy
// takes many times the 4 of a quiet one.
const bootWithin = 300

// Memory in MiB: of a guest where none is asked for, the least that a guest needs, and what
// QEMU and the monitor take beside it.
const (
	mostMemory, leastMemory, besideMemory = 4096, 256, 192
)

// memoryOf is the guest's memory, in MiB.
func memoryOf(l sandbox.Limits) (int64, error) {
	const mib = 1 << 20
	if l.Memory > 0 {
		if l.Memory < (leastMemory+besideMemory)*mib {
			return 0, &sandbox.Unsupported{Guarantee: "the limit of memory",
				Reason: fmt.Sprintf("start microvm: %d MiB are less than a machine and its guest need", l.Memory/mib),
				Fix:    fmt.Sprintf("give it --memory %dMiB or more", leastMemory+besideMemory)}
		}
		return l.Memory/mib - besideMemory, nil
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("start microvm: look at the memory: %w", err)
	}
	return max(leastMemory, min(mostMemory, int64(info.Totalram)*int64(info.Unit)/2/mib)), nil
}

// What QEMU may keep of translated code, in MiB: by itself it takes up to 1 GiB, which is beside the guest's
// memory. The least of a limit is within besideMemory.
const mostCode, leastCode = 512, 64

func codeOf(l sandbox.Limits) int64 {
	if l.Memory > 0 {
		return leastCode
	}
	return mostCode
}

// mostCPUs bounds the processors of a guest where none are asked for.
const mostCPUs = 8

func cpusOf(l sandbox.Limits) int {
	n := min(runtime.NumCPU(), mostCPUs)
	if l.CPUs > 0 {
		n = min(n, int(l.CPUs+0.999))
	}
	return max(n, 1)
}

// command is what is to run.
func command(s sandbox.Spec, w sandbox.Wiring) monitor.Command {
	c := monitor.Command{Argv: s.Argv, Env: engineEnv(s), Dir: string(s.Dir), User: s.User.ID, Writable: plan.Writable(s)}
	for i, f := range []*os.File{w.Stdin, w.Stdout, w.Stderr} {
		if f == nil {
			continue // native says so
		}
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		c.Terminal[i] = err == nil
	}
	return c
}

// refuse says what this level cannot do for a Spec.
func refuse(s sandbox.Spec) error {
	switch {
	case len(s.Devices) > 0:
		return &sandbox.Unsupported{Guarantee: "devices", Reason: "a machine of its own has no device of the host, and " +
			strings.Join(s.Devices, ", ") + " was asked for", Fix: "use --isolation native"}
	case s.Permits.Any(), len(s.Judged) > 0, s.InKernel:
		return &sandbox.Unsupported{Guarantee: "lists of files and programs",
			Reason: "start microvm: the host's kernel holds no command of a machine of its own", Fix: "use --isolation native"}
	}
	for _, text := range slices.Concat([]string{string(s.Dir)}, s.Argv, s.Env) {
		if !bytes.Equal([]byte(strings.ToValidUTF8(text, "")), []byte(text)) {
			name, _, _ := strings.Cut(text, "=")
			return &sandbox.Unsupported{Guarantee: "exact arguments",
				Reason: fmt.Sprintf("%q has bytes that are no UTF-8, which would arrive as others", name),
				Fix:    "use --isolation native, or take them out"}
		}
	}
	return nil
}
