package lsm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
)

// object is an inode with a label. The descriptor keeps the kernel from forgetting both.
type object struct {
	file *os.File
	path string // of the rule
}

// labelOf is the label of a file, which it gets if it has none. Sessions share it.
func labelOf(labels *ebpf.Map, f *os.File) (uint64, error) {
	fd := int32(f.Fd())
	var label uint64
	for range 3 {
		err := labels.Lookup(fd, &label)
		if err == nil {
			return label, nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return 0, fmt.Errorf("read label: %w", err)
		}
		var random [8]byte
		_, _ = rand.Read(random[:])                        // crypto/rand ends the program instead
		label = binary.NativeEndian.Uint64(random[:]) | 1  // 0 is everything's
		err = labels.Update(fd, label, ebpf.UpdateNoExist) // another process may be first
		if err == nil {
			return label, nil
		}
		if !errors.Is(err, ebpf.ErrKeyExist) {
			return 0, fmt.Errorf("label: %w", err)
		}
	}
	return 0, errors.New("label: it comes and goes")
}

// found is what the rules of a policy come to.
type found struct {
	label func(*os.File) (uint64, error)
	view  view // the session's
	own   view // this process's
	held  map[uint64]*object
	bits  map[uint64]Bits
	// forbidden are the labels of what a rule that forbids speaks of, by the rule's path. What a
	// name led to in an earlier policy of the session stays forbidden under the same rule: what
	// is renamed, or replaced while the name is looked up again, is not forgotten.
	forbidden, before map[string][]uint64
	earlier           map[uint64]*object
	again             bool // another policy is in force meanwhile
}

// still keeps what a rule forbade before, and reports whether there is any.
func (f *found) still(r Rule) (bool, error) {
	if r.Forbid == 0 {
		return false, nil
	}
	name := path.Clean(r.Path)
	for _, label := range f.before[name] {
		o := f.earlier[label]
		if o == nil {
			continue
		}
		fd, err := unix.FcntlInt(o.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return false, err
		}
		now, err := f.added(os.NewFile(uintptr(fd), o.file.Name()), name, Bits{Forbid: uint32(r.Forbid)})
		if err != nil {
			return false, err
		}
		f.note(r, now)
	}
	return len(f.forbidden[name]) > 0, nil
}

// note remembers what a rule forbids.
func (f *found) note(r Rule, label uint64) {
	if name := path.Clean(r.Path); r.Forbid != 0 && !slices.Contains(f.forbidden[name], label) {
		f.forbidden[name] = append(f.forbidden[name], label)
	}
}

// files are those of labels.
func files(held map[uint64]*object) map[uint64]*os.File {
	out := map[uint64]*os.File{}
	for label, o := range held {
		out[label] = o.file
	}
	return out
}

func (f *found) close() {
	for _, o := range f.held {
		o.file.Close()
	}
}

// add gives a file bits, and keeps its descriptor.
func (f *found) add(file *os.File, name string, b Bits) error {
	_, err := f.added(file, name, b)
	return err
}

// added is add, with the file's label.
func (f *found) added(file *os.File, name string, b Bits) (uint64, error) {
	label, err := f.label(file)
	if err != nil {
		return 0, errors.Join(err, file.Close())
	}
	now := f.bits[label]
	now.Permit |= b.Permit
	now.Forbid |= b.Forbid
	now.Flags |= b.Flags
	f.bits[label] = now
	old := f.held[label]
	if old == nil {
		f.held[label] = &object{file: file, path: name}
		return label, nil
	}
	if b.Forbid != 0 { // what a refusal names
		old.path = name
	}
	return label, file.Close()
}

// rule labels the object of a rule, the roots of the mounts below it, and holds the
// folders above it.
func (f *found) rule(r Rule) error {
	if !path.IsAbs(r.Path) {
		return errors.New("not an absolute path")
	}
	b := Bits{Permit: uint32(r.Permit), Forbid: uint32(r.Forbid)}
	name := path.Clean(r.Path)
	v := f.view
	if r.Own {
		v = f.own
	}
	v.straight = r.Straight
	file, parent, err := v.object(name)
	if r.Maybe && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := fits(r, file); err != nil {
		if err = errors.Join(err, file.Close(), parent.Close()); f.again && r.Maybe {
			return nil // it permits nothing: whoever made the folder there stops no policy
		}
		return err
	}
	if r.Forbid != 0 {
		err = f.hold(parent)
	} else {
		err = parent.Close()
	}
	var label uint64
	if err == nil {
		label, err = f.added(file, name, b)
	} else {
		file.Close()
	}
	if err != nil {
		return err
	}
	f.note(r, label)
	for _, m := range v.below(name) {
		file, err := v.open(v.root, m)
		if errors.Is(err, unix.ENOENT) {
			continue // covered by another mount, or gone
		}
		if err != nil {
			return err
		}
		if label, err = f.added(file, m, b); err != nil {
			return err
		}
		f.note(r, label)
	}
	return nil
}

// fits says why an object is not what its rule is about.
func fits(r Rule, file *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return err
	}
	if r.File && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return errors.New("it is a folder, and the rule is about a file")
	}
	return nil
}

// hold keeps a folder and all above it from being renamed and removed: a forbid of a path
// would be void if another object could come to be there.
func (f *found) hold(dir *os.File) error {
	for range maxDepth {
		var at, up unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &at); err != nil {
			return errors.Join(err, dir.Close())
		}
		fd, err := unix.Openat(int(dir.Fd()), "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return errors.Join(err, dir.Close())
		}
		parent := os.NewFile(uintptr(fd), "..")
		if err := unix.Fstat(fd, &up); err != nil {
			return errors.Join(err, dir.Close(), parent.Close())
		}
		if err := f.add(dir, "", Bits{Flags: HeldFlag}); err != nil {
			return errors.Join(err, parent.Close())
		}
		if at.Dev == up.Dev && at.Ino == up.Ino {
			return parent.Close()
		}
		dir = parent
	}
	return errors.Join(errors.New("it lies below too many folders"), dir.Close())
}

// maxDepth is DEPTH of bpf/lsm.bpf.c.
const maxDepth = 64

// view is what a process sees.
type view struct {
	root     *os.File
	mounts   []mount
	straight bool // no link is followed
}

type mount struct {
	dev   uint32 // as the kernel has it in a super block
	root  string // what of the file system is shown
	point string
}

// viewOf reads what a process sees. Only its root is a descriptor.
func viewOf(pid int) (view, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(proc + "/mountinfo")
	if err != nil {
		return view{}, err
	}
	fd, err := unix.Open(proc+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return view{}, fmt.Errorf("open the root of process %d: %w", pid, err)
	}
	return view{root: os.NewFile(uintptr(fd), "root"), mounts: mountsOf(string(text))}, nil
}

// mountsOf reads a mountinfo (proc(5)).
func mountsOf(text string) []mount {
	unquote := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []mount
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		majorText, minorText, _ := strings.Cut(fields[2], ":")
		major, err1 := strconv.ParseUint(majorText, 10, 12)
		minor, err2 := strconv.ParseUint(minorText, 10, 20)
		if err1 != nil || err2 != nil {
			continue
		}
		out = append(out, mount{
			dev: uint32(major<<20 | minor), root: unquote.Replace(fields[3]), point: unquote.Replace(fields[4]),
		})
	}
	return out
}

// below are the mount points at and below a path.
func (v view) below(name string) []string {
	var out []string
	for _, m := range v.mounts {
		if realpath.Inside(m.point, name) && m.point != name {
			out = append(out, m.point)
		}
	}
	return out
}

// shown is a path of a file system as a mount shows it; unseen is one that none shows.
func (v view) shown(dev uint32, name string) (at string, unseen bool) {
	best := -1
	for i, m := range v.mounts {
		if m.dev == dev && realpath.Inside(name, m.root) && (best < 0 || len(m.root) >= len(v.mounts[best].root)) {
			best = i
		}
	}
	if best < 0 {
		return name, true
	}
	m := v.mounts[best]
	return path.Join(m.point, strings.TrimPrefix(name, strings.TrimSuffix(m.root, "/"))), false
}

// open opens a path as the view's processes would, for nothing but to name it.
func (v view) open(from *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if v.straight {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(int(from.Fd()), strings.TrimPrefix(name, "/"), &how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// object opens what a path leads to, and the folder in which that really lies.
func (v view) object(name string) (file, parent *os.File, err error) {
	for range 40 {
		if name == "/" {
			if file, err = v.open(v.root, "."); err != nil {
				return nil, nil, err
			}
			parent, err = v.open(v.root, ".")
			break
		}
		if parent, err = v.open(v.root, path.Dir(name)+"/."); err != nil {
			return nil, nil, err
		}
		buffer := make([]byte, unix.PathMax)
		n, linkErr := unix.Readlinkat(int(parent.Fd()), path.Base(name), buffer)
		if linkErr != nil {
			file, err = v.open(v.root, name)
			break
		}
		parent.Close()
		if v.straight {
			return nil, nil, unix.ELOOP
		}
		target := string(buffer[:n])
		if !path.IsAbs(target) {
			// The folder may be a link itself, so that its "..", by name, is another one.
			target = path.Dir(name) + "/" + target
		}
		name = target
	}
	if err != nil {
		if parent != nil {
			parent.Close()
		}
		return nil, nil, err
	}
	if file == nil {
		return nil, nil, unix.ELOOP
	}
	return file, parent, nil
}
