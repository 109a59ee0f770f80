package lsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Pins is where the programs of all sessions are held, in the kernel's own file system:
// they outlive every process of ours.
const Pins = "/sys/fs/bpf"

// optional are hooks that older kernels have not, and how they ask instead.
var optional = []string{
	"inode_set_acl", "inode_remove_acl", // before 6.2 by inode_setxattr
	"file_truncate", // before 6.2 by inode_setattr
}

// guards are hooks that a kernel lacks together with what they guard, or, before 6.1, where only
// namespaces of users have none.
var guards = []string{"key_alloc", "perf_event_open", "userns_create"}

// Kernel are the loaded programs and their maps.
type Kernel struct {
	dir    string // of the pins
	pinned bool   // they outlive this process
	maps   map[string]*ebpf.Map
	links  map[string]link.Link
}

// The maps in maps, as bpf/lsm.bpf.c has them.
var (
	innerPolicy = ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 12}
	innerRing   = ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 19}
)

// Open loads the programs and attaches them, or joins those that are pinned already. They
// are this process's until a session begins. The error is an Unsupported where the kernel
// has no such hooks or refuses them.
func Open() (_ *Kernel, err error) {
	if !hasPins() {
		if err := Try(); err != nil { // nothing is mounted where the kernel cannot judge
			return nil, err
		}
		if err := unix.Mount("bpf", Pins, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
			return nil, &Unsupported{
				Reason: "no file system of BPF at " + Pins, Fix: "mount -t bpf bpf " + Pins + ", as root", Err: err,
			}
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, unix.Unmount(Pins, 0))
			}
		}()
	}
	unlock, err := lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	k := &Kernel{dir: filepath.Join(Pins, pinName()), maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}}
	if joined, err := k.join(); joined || err != nil {
		return k, err
	}
	spec, err := loadObjects()
	if err == nil {
		err = suit(spec)
	}
	if err == nil {
		err = k.load(spec)
	}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// Try reports whether Open would come off, by loading and attaching one of the programs.
func Try() error {
	if hasPins() {
		unlock, err := lock() // Open refuses a folder that others may open
		if err != nil {
			return err
		}
		unlock()
	}
	if _, err := os.Stat(filepath.Join(Pins, pinName(), complete)); err == nil {
		return nil // they are at work
	}
	spec, err := loadObjects()
	if err != nil {
		return fmt.Errorf("load LSM: %w", err)
	}
	if err := suit(spec); err != nil {
		return err
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return name != objectsProgExecute })
	k := &Kernel{maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}}
	defer k.close()
	return k.load(spec)
}

// hasPins reports whether the file system of pins is there.
func hasPins() bool {
	var st unix.Statfs_t
	return unix.Statfs(Pins, &st) == nil && st.Type == unix.BPF_FS_MAGIC
}

const pinPrefix = "cloister-"

// pinName names the pins after the objects: another version of us has its own.
func pinName() string {
	sum := sha256.Sum256(_ObjectsBytes)
	return pinPrefix + hex.EncodeToString(sum[:8])
}

// Version is that of the programs: whoever reads their events must have the same.
func Version() string { return pinName() }

// lock keeps other processes from loading and removing.
func lock() (func(), error) {
	f, err := os.Open(Pins)
	if errors.Is(err, fs.ErrPermission) {
		return nil, &Unsupported{Reason: "the kernel's judge is loaded by root alone", Fix: "run as root", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("load LSM: %w", err)
	}
	if err := rootAlone(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("load LSM: lock %s: %w", Pins, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// rootAlone refuses a folder of pins that another user may open, and so lock for ever, or
// make names in.
func rootAlone(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("load LSM: %w", err)
	}
	if mode := st.Mode &^ unix.S_IFMT; st.Uid != 0 || mode&0o077 != 0 {
		return &Unsupported{
			Reason: fmt.Sprintf("%s is open to others than root (mode %04o of user %d)", f.Name(), mode, st.Uid),
			Fix:    "chown root " + f.Name() + " && chmod 0700 " + f.Name() + ", as root",
		}
	}
	return nil
}

// suit takes out of the programs what this kernel has no hook for.
func suit(spec *ebpf.CollectionSpec) error {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return &Unsupported{
			Reason: "this kernel does not describe its types (BTF)", Fix: "use a kernel with CONFIG_DEBUG_INFO_BTF", Err: err,
		}
	}
	params := func(hook string) int {
		var f *btf.Func
		if err := kernel.TypeByName("bpf_lsm_"+hook, &f); err != nil {
			return -1
		}
		return len(f.Type.(*btf.FuncProto).Params)
	}
	// Variables are there for their types alone.
	clear(spec.Variables)
	maps.DeleteFunc(spec.Maps, func(name string, _ *ebpf.MapSpec) bool { return strings.HasPrefix(name, ".") })
	for name, p := range spec.Programs {
		switch n := params(p.AttachTo); {
		case n < 0 && (slices.Contains(optional, p.AttachTo) || slices.Contains(guards, p.AttachTo)),
			name == objectsProgSetAttributes && n == 2, // before 6.9 it has no id map
			name == objectsProgSetAttributesOld && n == 3:
			delete(spec.Programs, name)
		case n < 0:
			return &Unsupported{Reason: "this kernel has no hook " + p.AttachTo + " for programs",
				Fix: "use a kernel with CONFIG_BPF_LSM"}
		}
	}
	return nil
}

// load makes and attaches everything.
func (k *Kernel) load(spec *ebpf.CollectionSpec) error {
	// Of the same making as those that are put in later: before 6.2 a map with types is
	// another kind than one without.
	spec.Maps[objectsMapPolicies].InnerMap = innerPolicy.Copy()
	spec.Maps[objectsMapPolicies].InnerMap.MaxEntries = 1
	spec.Maps[objectsMapRings].InnerMap = innerRing.Copy()
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return refusal("the kernel refuses to load the programs", err)
	}
	defer c.Close()
	for name := range spec.Maps {
		k.maps[name] = c.DetachMap(name)
	}
	for name, p := range c.Programs {
		l, err := link.AttachLSM(link.LSMOptions{Program: p})
		if err != nil {
			return refusal("the kernel refuses to attach "+name, err)
		}
		k.links[name] = l
	}
	return nil
}

// pin has the programs outlive this process, which has the lock. Where another process was
// first, its programs take the place of these.
func (k *Kernel) pin() error {
	if _, err := os.Stat(filepath.Join(k.dir, complete)); k.pinned && err == nil {
		return nil // and not unpinned by who ended the last session meanwhile
	}
	other := &Kernel{dir: k.dir, maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}}
	joined, err := other.join()
	if err != nil {
		return err
	}
	if joined {
		k.close()
		*k = *other
		return nil
	}
	if err := k.pinAll(); err != nil {
		return errors.Join(err, os.RemoveAll(k.dir))
	}
	k.pinned = true
	return nil
}

func (k *Kernel) pinAll() error {
	if err := os.Mkdir(k.dir, 0o700); err != nil {
		return fmt.Errorf("load LSM: %w", err)
	}
	for name, m := range k.maps {
		if err := m.Pin(filepath.Join(k.dir, "map-"+name)); err != nil {
			return fmt.Errorf("load LSM: pin %s: %w", name, err)
		}
	}
	for name, l := range k.links {
		if err := l.Pin(filepath.Join(k.dir, "link-"+name)); err != nil {
			return fmt.Errorf("load LSM: pin %s: %w", name, err)
		}
	}
	return os.Mkdir(filepath.Join(k.dir, complete), 0o700)
}

// complete is the last thing that a load makes, and a folder since there are no files.
const complete = "complete"

// refusal explains why the kernel would not.
func refusal(what string, err error) error {
	fix := "boot with bpf in the list of security modules: lsm=…,bpf"
	if state, _ := os.ReadFile("/sys/kernel/security/lockdown"); bytes.Contains(state, []byte("[confidentiality]")) {
		fix = "boot without lockdown=confidentiality: it keeps programs from reading the kernel's memory"
	} else if Listed() {
		fix = "use a kernel on which programs can be attached to security hooks"
	}
	return &Unsupported{Reason: what, Fix: fix, Err: err}
}

// Listed reports whether bpf is among the security modules that were booted with.
func Listed() bool {
	list, _ := os.ReadFile("/sys/kernel/security/lsm") // it may not be mounted
	return slices.Contains(strings.Split(strings.TrimSpace(string(list)), ","), "bpf")
}

// join opens what is pinned, where a load was completed.
func (k *Kernel) join() (bool, error) {
	if _, err := os.Stat(filepath.Join(k.dir, complete)); err != nil {
		// What a process left that was ended while it loaded: no session of it began.
		return false, os.RemoveAll(k.dir)
	}
	list, err := os.ReadDir(k.dir)
	for _, e := range list {
		if err != nil {
			break
		}
		name := filepath.Join(k.dir, e.Name())
		if of, isMap := strings.CutPrefix(e.Name(), "map-"); isMap {
			k.maps[of], err = ebpf.LoadPinnedMap(name, nil)
		} else if of, isLink := strings.CutPrefix(e.Name(), "link-"); isLink {
			var l link.Link
			if l, err = link.LoadPinnedLink(name, nil); err == nil {
				k.links[of] = l
			}
		}
	}
	if err != nil {
		k.close()
		return false, fmt.Errorf("join LSM: %w", err)
	}
	k.pinned = true
	return true, nil
}

func (k *Kernel) close() {
	for _, m := range k.maps {
		m.Close()
	}
	for _, l := range k.links {
		l.Close()
	}
	k.maps, k.links = map[string]*ebpf.Map{}, map[string]link.Link{}
}

// Programs is how many programs are attached.
func (k *Kernel) Programs() int { return len(k.links) }

// Close lets go of the programs. They are removed from the kernel when no session of any
// process is left.
func (k *Kernel) Close() error {
	unlock, err := lock()
	if err != nil {
		k.close()
		return err
	}
	defer unlock()
	if !k.pinned {
		k.close()
		return nil
	}
	left, err := k.sweep()
	k.close()
	if err != nil || left > 0 {
		return err
	}
	if err := os.RemoveAll(k.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unload LSM: %w", err)
	}
	return nil
}

// sweep forgets sessions whose control group is gone, and counts the others.
func (k *Kernel) sweep() (int, error) {
	var id uint64
	var s objectsSession
	var gone []uint64
	left := 0
	all := k.maps[objectsMapSessions].Iterate()
	for all.Next(&id, &s) {
		if exists, err := groupExists(id); err != nil {
			return left, err
		} else if exists {
			left++
		} else {
			gone = append(gone, id)
		}
	}
	if err := all.Err(); err != nil {
		return left, fmt.Errorf("list the sessions of the LSM: %w", err)
	}
	for _, id := range gone {
		if err := k.forget(id); err != nil {
			return left, err
		}
	}
	return left, nil
}

// forget removes all that is kept of a session: tasks that are still in it open nothing.
func (k *Kernel) forget(id uint64) error {
	var errs []error
	for _, name := range []string{objectsMapSessions, objectsMapPolicies, objectsMapRings} {
		if err := k.maps[name].Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, fmt.Errorf("forget a session of the LSM: %w", err))
		}
	}
	return errors.Join(errs...)
}
