package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"cloister/state/layers"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Start makes the steps in the project. dir is where journals are kept. With a conflict
// the project is as it was, and the error is a Conflicts.
func Start(dir, project, label string, steps []Step) (*Journal, error) {
	return start(dir, project, label, "", steps)
}

func start(dir, project, label, undoes string, steps []Step) (*Journal, error) {
	j, err := create(dir, project, label, undoes, steps)
	if err != nil {
		return nil, err
	}
	r, err := j.open()
	if err == nil {
		err = r.all()
		err = errors.Join(err, r.close())
	}
	if err != nil {
		var back *halfBack
		// Where it is not known whether all is done, the journal is kept for the next call.
		done, derr := j.has(doneFile)
		if err = errors.Join(err, derr); derr == nil && !done && !errors.As(err, &back) {
			err = errors.Join(err, j.abandon())
		}
		return nil, err
	}
	return j, nil
}

// halfBack keeps a journal: the next call goes on taking it back.
type halfBack struct{ error }

func (h *halfBack) Error() string { return "take back what was applied: " + h.error.Error() }
func (h *halfBack) Unwrap() error { return h.error }

func (j *Journal) abandon() error { return os.RemoveAll(j.dir) }

var errReplaced = errors.New("another folder is there now")

// run is a journal at work.
type run struct {
	*Journal
	top    *layers.Folder
	stage  *layers.Folder
	staged []uint64       // the inode that was staged for each step; 0 for none
	stamps []layers.Stamp // of what was staged, once it is durable; nil in a recovery
	kept   []string       // what was taken from the project and lies beside its name now
	uid    int            // owner of what is made; -1 leaves it
	gid    int
}

func (j *Journal) open() (*run, error) {
	top, err := layers.OpenFolder(j.Project)
	if err != nil {
		return nil, fmt.Errorf("open project: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(top.Fd(), &st); err != nil {
		return nil, errors.Join(err, top.Close())
	}
	if st.Dev != j.root.Dev || st.Ino != j.root.Inode {
		return nil, errors.Join(fmt.Errorf("%w: %s", errReplaced, j.Project), top.Close())
	}
	r := &run{Journal: j, top: top, uid: -1, gid: -1}
	if os.Geteuid() == 0 {
		r.uid, r.gid = int(st.Uid), int(st.Gid)
	}
	if err := r.openStage(); err != nil {
		return nil, errors.Join(err, top.Close())
	}
	return r, nil
}

func (r *run) close() error { return errors.Join(r.stage.Close(), r.top.Close()) }

func (r *run) all() error {
	if c := r.check(); len(c) > 0 {
		return errors.Join(c, r.unstage())
	}
	if err := r.stageAll(); err != nil {
		return errors.Join(err, r.unstage())
	}
	return r.carryOut()
}

// check looks at every path before anything is staged, so that all conflicts are known.
func (r *run) check() (out Conflicts) {
	seen := map[string]bool{} // what earlier steps remove or make
	for _, s := range r.Steps {
		if seen[s.Path] || !s.Old.Exists() && below(s.Path, seen) {
			continue
		}
		seen[s.Path] = true
		if why := r.differs(s); why != "" {
			out = append(out, Conflict{s.Path, why})
		}
	}
	return out
}

// below reports whether a folder above a path is in a set.
func below(name string, set map[string]bool) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if set[dir] {
			return true
		}
	}
	return false
}

func (r *run) differs(s Step) string {
	dir, name, err := layers.Parent(r.top, s.Path)
	if err != nil {
		return "it cannot be reached: " + reason(err)
	}
	defer func() { _ = dir.Close() }()
	now, err := dir.Stat(name)
	if err != nil {
		return reason(err)
	}
	return expected(s.Old, now)
}

func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// expected compares what a step expects with what is there.
func expected(want, now layers.Node) string {
	switch {
	case !want.Exists() && now.Exists():
		return "it was made in the project meanwhile"
	case want.Exists() && !now.Exists():
		return "it was removed in the project meanwhile"
	case want.Kind != now.Kind:
		return "it is another kind of entry in the project now"
	case want.Kind == layers.Dir:
		return ""
	case want.Kind == layers.Link && want.Target == now.Target:
		return ""
	case !want.Stamp.SameContent(now.Stamp):
		return "it was changed in the project meanwhile"
	case want.Mode != now.Mode && now.Kind == layers.File:
		return "its mode was changed in the project meanwhile"
	}
	return ""
}

// own gives what root makes to the owner of the project.
func (r *run) own(dir int, name string) error {
	if r.uid < 0 {
		return nil
	}
	return unix.Fchownat(dir, name, r.uid, r.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// carryOut makes the steps that are not made yet. With a conflict all are taken back.
func (r *run) carryOut() error {
	for i, s := range r.Steps {
		why, err := r.step(i, s)
		if err == nil && why == "" {
			continue
		}
		back := r.takeBack(i)
		if why != "" {
			err = errors.Join(Conflicts{{s.Path, why + r.keptBeside()}}, err)
		} else {
			err = fmt.Errorf("apply %s: %w%s", s.Path, err, r.keptBeside())
		}
		if back != nil {
			return errors.Join(err, &halfBack{back})
		}
		return err
	}
	err := r.finish()
	if err == nil {
		return nil
	}
	if done, derr := r.has(doneFile); done || derr != nil {
		return errors.Join(err, derr)
	}
	// The journal alone has what was there before: it is not given up with the change made.
	if back := r.takeBack(len(r.Steps)); back != nil {
		return errors.Join(err, &halfBack{back})
	}
	return err
}

// takeBack takes the steps before the n-th back. It is noted first, so that a crash in
// the midst of it is not followed by an attempt to go forward again. On a full disk it is
// done without the note: to go forward would come to one version as well.
func (r *run) takeBack(n int) error {
	note := write(filepath.Join(r.dir, backFile), n)
	err := r.rollBack(n)
	if err == nil {
		err = r.leave() // not before: it has what is still to be put back
	}
	if err != nil {
		return errors.Join(note, err)
	}
	return nil
}

func (r *run) finish() error {
	done, err := r.lookAndSync()
	if err != nil {
		return fmt.Errorf("sync project: %w", err)
	}
	// From here on the change is made, whatever is interrupted.
	if err := write(filepath.Join(r.dir, doneFile), done); err != nil {
		return err
	}
	return r.settle()
}

// lookAndSync looks at what the steps made, and makes the names that they changed durable.
func (r *run) lookAndSync() ([]layers.Node, error) {
	done, in := make([]layers.Node, len(r.Steps)), map[string][]int{}
	var order []string
	for i, s := range r.Steps {
		at := path.Dir(s.Path)
		if in[at] == nil {
			order = append(order, at)
		}
		in[at] = append(in[at], i)
	}
	var group errgroup.Group
	group.SetLimit(syncsAtOnce)
	for _, at := range order {
		group.Go(func() error { return r.lookAndSyncOne(in[at], done) })
	}
	return done, group.Wait()
}

// lookAndSyncOne does so for the steps of one folder.
func (r *run) lookAndSyncOne(steps []int, done []layers.Node) error {
	dir, _, err := layers.Parent(r.top, r.Steps[steps[0]].Path)
	gone := !slices.ContainsFunc(steps, func(i int) bool { return r.Steps[i].New.Exists() })
	if gone && layers.Absent(err) {
		return nil // removed with what was in it
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	for _, i := range steps {
		if s := r.Steps[i]; s.New.Exists() {
			if done[i], err = dir.Stat(path.Base(s.Path)); err != nil {
				return err
			}
			done[i] = r.ours(i, done[i])
		}
	}
	return unix.Fsync(dir.Fd())
}

// ours is what a step made, where another program has replaced or written it since: an undo
// must not take that for its own.
func (r *run) ours(i int, now layers.Node) layers.Node {
	made := layers.Stamp{Inode: r.staged[i]}
	if r.stamps != nil {
		made = r.stamps[i]
	}
	if made.Inode == 0 || made.Inode == now.Stamp.Inode && (r.stamps == nil || made.SameContent(now.Stamp)) {
		return now
	}
	s := r.Steps[i]
	return layers.Node{Kind: s.New.Kind, Mode: s.New.Mode & 0o777, Target: s.New.Target, Size: made.Size, Stamp: made}
}

// settle cleans up after a change that is made.
func (r *run) settle() error {
	moved, err := r.keepAllOld()
	if err == nil && !moved {
		err = errors.Join(r.keepOld(), r.unstage())
	}
	if err != nil {
		return err
	}
	if r.Undoes != "" {
		if err := write(filepath.Join(filepath.Dir(r.dir), r.Undoes, undoneFile), r.ID); err != nil {
			return err
		}
	}
	return write(filepath.Join(r.dir, settledFile), true)
}
