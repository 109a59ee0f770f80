package judge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"cloister/internal/cgroup"
	"cloister/internal/realpath"
	"cloister/kernel/lsm"
	"cloister/kernel/lsm/service"
	"cloister/sandbox"
)

// Kernel is a kernel that judges.
type Kernel struct{ programs *lsm.Kernel } // nil: by root's service

// Judge is that of one box.
type Judge struct {
	session  session
	reported chan struct{} // closed when the last event was reported
	root     sandbox.Root  // where the host has the box's own files
	pid      int           // whose view the paths are of

	mu    sync.Mutex
	names map[string]string // of rules, by their paths
}

// session is an lsm.Session, once a policy is in force.
type session interface {
	Replace(p lsm.Policy) error
	Read(until time.Time) (lsm.Event, error)
	Counts() (lsm.Counts, error)
	Freeze() error
	Drain() error
	Close() error
}

// Kept says why what enters a control group is not judged; nil where it is, by the programs that the
// cloister's own shim loaded.
func Kept(group string) error {
	if os.Geteuid() == 0 {
		return unsupported(lsm.Holds(group))
	}
	// Of a group that is judged no second session begins; of another one this ends it, and what is in
	// it opens nothing.
	c, err := attach(group)
	switch {
	case errors.Is(err, lsm.ErrJudged):
		return nil
	case err != nil:
		return unsupported(err)
	}
	return errors.Join(unsupported(lsm.Gone()), c.Close())
}

// Available says why the kernel judges nothing for this process; nil where it does.
func Available() error {
	switch {
	case !cgroup.Unified():
		return unsupported(&lsm.Unsupported{
			Reason: "control groups are not of version 2 alone", Fix: "boot with systemd.unified_cgroup_hierarchy=1",
		})
	case os.Geteuid() == 0:
		return unsupported(lsm.Try())
	}
	if err := service.Available(); err != nil {
		return unsupported(err)
	}
	return unsupported(grouped(func(string) error { return nil }))
}

// ofRoot refuses a user's containers: they lie in control groups of root's engine.
func ofRoot() error {
	if os.Geteuid() == 0 {
		return nil
	}
	return &sandbox.Unsupported{
		Guarantee: "files and programs judged by the kernel",
		Reason:    "a user's containers lie in control groups of root's engine, which root's service judges for no user",
		Fix:       "run as root, or use --isolation native",
	}
}

// AvailableToEngine is Available for containers of an engine.
func AvailableToEngine() error {
	if err := ofRoot(); err != nil {
		return err
	}
	return Available()
}

// LoadForEngine is Load for containers of an engine.
func LoadForEngine() (*Kernel, error) {
	if err := ofRoot(); err != nil {
		return nil, err
	}
	return Load()
}

// grouped tries something with a control group like those of boxes.
func grouped(try func(dir string) error) error {
	g, err := cgroup.New("cloister-try-"+rand.Text(), cgroup.Bounds{})
	if err != nil {
		return &lsm.Unsupported{
			Reason: "this process may make no control group of its own",
			Fix:    "have the service manager delegate one: systemd-run --user --scope -p Delegate=yes", Err: err,
		}
	}
	return errors.Join(try(g.Version2()), g.Close())
}

// attach has root's service make a control group a session.
func attach(group string) (*service.Client, error) {
	dir, err := os.Open(group)
	if err != nil {
		return nil, fmt.Errorf("judge files: %w", err)
	}
	defer dir.Close()
	c, err := service.Dial()
	if err == nil {
		if err = c.Attach(dir); err != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return c, err
}

// begin begins a session of a control group, once the kernel was seen to judge it.
func (k *Kernel) begin(ctx context.Context, group string) (*lsm.Session, error) {
	if k.programs != nil {
		return k.programs.Begin(ctx, group)
	}
	c, err := attach(group)
	if err != nil {
		return nil, err
	}
	return lsm.Over(ctx, c, group)
}

// Load gives the kernel what it judges by, before a box is begun: that may take a second.
// Nothing of it outlives this process unless a box begins.
func Load() (*Kernel, error) {
	switch {
	case !cgroup.Unified():
		return nil, Available()
	case os.Geteuid() != 0:
		if err := service.Available(); err != nil {
			return nil, unsupported(err)
		}
		err := grouped(func(dir string) error {
			c, err := attach(dir)
			if err != nil {
				return err
			}
			return c.Close()
		})
		if err != nil {
			return nil, unsupported(err)
		}
		return &Kernel{}, nil
	}
	k, err := lsm.Open()
	if err != nil {
		return nil, unsupported(err)
	}
	return &Kernel{programs: k}, nil
}

// Close lets go of it.
func (k *Kernel) Close() error {
	if k.programs == nil {
		return nil
	}
	return k.programs.Close()
}

// unsupported tells of the library's refusal in a driver's words.
func unsupported(err error) error {
	if u, ok := errors.AsType[*lsm.Unsupported](err); ok {
		return &sandbox.Unsupported{Guarantee: "files and programs judged by the kernel", Reason: err.Error(), Fix: u.Fix}
	}
	return err
}

// Begin has the kernel judge what all processes of a control group do, with paths as process
// pid sees them. tell is given what happens, by one goroutine, at most some hundred times a
// second; lost is called once if it is not judged any more.
func (k *Kernel) Begin(
	ctx context.Context, group string, pid int, s sandbox.Spec, tell func(sandbox.FileEvent), lost func(error),
) (*Judge, error) {
	session, err := k.begin(ctx, group)
	if err != nil {
		return nil, unsupported(err)
	}
	p, names, err := policyOf(s)
	if err == nil {
		err = absent(session.Apply(pid, p), s)
	}
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	j := &Judge{session: session, names: names, reported: make(chan struct{}), root: s.Root, pid: pid}
	go j.watch(newTeller(tell), lost)
	return j, nil
}

// Apply has the kernel judge by other statements from now on, in one step. After an error the earlier
// ones rule on in whole.
func (j *Judge) Apply(s sandbox.Spec) error {
	s.Root = j.root
	if err := Lasting(j.pid, s); err != nil {
		return err // no view covers what is new
	}
	p, names, err := policyOf(s)
	if err != nil {
		return err
	}
	for i := range p.Rules {
		p.Rules[i].Maybe = p.Rules[i].Maybe || p.Rules[i].Own // the view covers it
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err = j.session.Replace(p); err == nil {
		// What was refused before is told by its own names.
		maps.Copy(j.names, names)
		return nil
	}
	if missing, ok := errors.AsType[*lsm.Absent](err); ok {
		return fmt.Errorf("%s is not there, so that the kernel cannot judge it", strings.Join(missing.Paths, ", "))
	}
	return err
}

// absent passes over paths that nothing has where the view keeps them too.
func absent(err error, s sandbox.Spec) error {
	missing, ok := errors.AsType[*lsm.Absent](err)
	if !ok {
		return err
	}
	for _, j := range s.Judged {
		for _, p := range missing.Paths {
			if !j.Covered && p == string(j.Path) {
				return &sandbox.Unsupported{
					Guarantee: "the rule " + j.Rule, Reason: p + " is not there, so that the kernel cannot judge it",
					Fix: "make it first, or take the statement out",
				}
			}
		}
	}
	return nil
}

// watch tells what is judged until the session ends, and looks whether it is there.
func (j *Judge) watch(t *teller, lost func(error)) {
	defer close(j.reported)
	var dropped uint64
	flush := func() error {
		counts, err := j.session.Counts()
		if err != nil {
			counts.Dropped = dropped
		}
		t.flush(counts.Dropped - dropped)
		dropped = counts.Dropped
		return err
	}
	until := time.Now().Add(every)
	for {
		e, err := j.session.Read(until)
		switch {
		case errors.Is(err, io.EOF):
			_ = flush() // the session is over, whatever it still had
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			until = time.Now().Add(every)
			err = flush()
		case err == nil:
			if e, reported := j.event(e); reported {
				t.add(e)
			}
			if time.Now().After(until) {
				until = time.Now().Add(every)
				err = flush()
			}
		}
		if err != nil {
			// Its processes open nothing any more; that is no way to go on. They stand still until they
			// are ended, so that none of them goes on with what it has open.
			err = errors.Join(err, j.session.Freeze())
			lost(fmt.Errorf("the kernel's judge of files is gone: %w", err))
			return
		}
	}
}

// event is one in the words of the recorder (sandbox/watch), and whether it is reported: of what is
// permitted, the box's own files and the code of libraries are not.
func (j *Judge) event(e lsm.Event) (sandbox.FileEvent, bool) {
	out := sandbox.FileEvent{
		When: e.When, Op: e.Op.String(), Path: e.Path, Rule: j.rule(e), Program: e.Program, PID: e.PID,
		Argv: e.Words, Let: e.Let,
	}
	if dir := string(j.root.Dir); dir != "" && realpath.Inside(e.Path, dir) {
		out.Path = path.Join("/", strings.TrimPrefix(e.Path, dir)) // as it is called inside
	}
	if e.More > 0 && len(out.Argv) > 0 {
		out.Argv = append(out.Argv, fmt.Sprintf("… %d more", e.More))
	}
	if e.Why != lsm.Allowed {
		out.Why = e.Why.String()
	}
	if e.Why == lsm.Allowed || e.Let {
		out.Op = use(e)
	}
	return out, e.Why != lsm.Allowed || e.Op == lsm.Executed || e.Op == lsm.Scripted || learned(e)
}

// rule is the name of the rule of an event.
func (j *Judge) rule(e lsm.Event) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return ruleOf(j.names, e.Rule)
}

// Close lets go: what of the box still lives opens nothing any more.
func (j *Judge) Close() error {
	err := j.session.Drain()
	<-j.reported
	return errors.Join(err, j.session.Close())
}
