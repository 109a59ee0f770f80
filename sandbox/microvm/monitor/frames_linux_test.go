package monitor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// driver is the side of QEMU's device, with a guest's memory: it hands the server of files what a guest whose kernel is
// the payload's would put into its queue (QEMU: docs/interop/vhost-user.rst; the kernel: include/uapi/linux/fuse.h).
type driver struct {
	t          *testing.T
	c          *net.UnixConn
	memory     []byte
	kick, call int
	next       uint16
	gone       chan error
	m          *machine
}

// Where things lie in the memory, which the server is told begins at 0.
const (
	memorySize                  = 4 << 20
	descAt, availAt, usedAt     = 0x0, 0x4000, 0x8000
	outAt, inAt                 = 0x100000, 0x200000
	entries                     = 128
	roomIn                      = 1 << 20
	setFeatures, setOwner       = 2, 3
	setMemory, setNum, setAddr  = 5, 8, 9
	setBase, setKick, setCall   = 10, 12, 13
	setProtocol, setEnable      = 16, 18
	descNext, descWrite         = 1, 2
	featureVersion, featureMore = 1 << 32, 1 << 30
)

var le = binary.LittleEndian

// serving starts a server of a view, behind its walls, and a driver of it.
func serving(t *testing.T, view string) *driver {
	t.Helper()
	state := t.TempDir()
	d := &driver{t: t, gone: make(chan error, 2)}
	d.m = &machine{o: Order{Server: "/usr/lib/qemu/virtiofsd", View: view, State: state, Writable: []string{"/project"}, Setup: Setup{Seen: 1024}}, gone: d.gone}
	t.Cleanup(func() {
		d.m.end()
		d.m.heard.Wait()
	})
	at := filepath.Join(state, files)
	if err := d.m.serve(context.Background(), at); err != nil {
		t.Fatal(err)
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	d.c = c
	t.Cleanup(func() { _ = c.Close() })
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, memorySize); err != nil {
		t.Fatal(err)
	}
	if d.memory, err = unix.Mmap(fd, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(d.memory) })
	event := func() int {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	d.kick, d.call = event(), event()
	d.tell(setOwner, -1)
	d.tell(setFeatures, -1, featureVersion|featureMore)
	d.tell(setProtocol, -1, 0)
	d.tell(setMemory, fd, 1, 0, memorySize, 0, 0)
	for queue := range uint64(2) { // the first is for what is urgent, and stays empty
		kick, call, shift := d.kick, d.call, uint64(0)
		if queue == 0 {
			kick, call, shift = event(), event(), memorySize/2
		}
		d.tell(setNum, -1, queue|entries<<32)
		d.tell(setBase, -1, queue)
		d.tell(setAddr, -1, queue, descAt+shift, usedAt+shift, availAt+shift, 0)
		d.tell(setCall, call, queue)
		d.tell(setKick, kick, queue)
		d.tell(setEnable, -1, queue|1<<32)
	}
	return d
}

// tell sends one message of vhost-user, perhaps with a descriptor.
func (d *driver) tell(request uint32, fd int, words ...uint64) {
	d.t.Helper()
	var b []byte
	for _, w := range words {
		b = le.AppendUint64(b, w)
	}
	head := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, request), 1), uint32(len(b)))
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	if _, _, err := d.c.WriteMsgUnix(append(head, b...), rights, nil); err != nil {
		d.t.Logf("message %d: %v", request, err) // it may have ended, which who asks next is told
	}
}

// piece is one descriptor of a chain: what the server reads, or where it writes.
type piece struct {
	at     uint64
	length uint32
	flags  uint16
	next   uint16
}

// put hands over a chain of descriptors as it is, and gives how many bytes came back, or an error: the server has ended, or
// does not answer.
func (d *driver) put(chain ...piece) (int, error) {
	for i, p := range chain {
		b := le.AppendUint32(le.AppendUint64(nil, p.at), p.length)
		copy(d.memory[descAt+16*i:], le.AppendUint16(le.AppendUint16(b, p.flags), p.next))
	}
	le.PutUint16(d.memory[availAt+4+2*int(d.next%entries):], 0)
	d.next++
	le.PutUint16(d.memory[availAt+2:], d.next)
	if _, err := unix.Write(d.kick, le.AppendUint64(nil, 1)); err != nil {
		return 0, err
	}
	deadline := time.Now().Add(30 * time.Second)
	for le.Uint16(d.memory[usedAt+2:]) != d.next {
		select {
		case err := <-d.gone:
			return 0, err
		default:
		}
		if time.Now().After(deadline) {
			return 0, errSilent
		}
		fds := []unix.PollFd{{Fd: int32(d.call), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 20); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		_, _ = unix.Read(d.call, make([]byte, 8))
	}
	return int(le.Uint32(d.memory[usedAt+4+8*int((d.next-1)%entries)+4:])), nil
}

var errSilent = errors.New("no answer")

// request is one of FUSE, with all that its header says.
type request struct {
	op     uint32
	node   uint64
	body   []byte
	length int // of all, as the header says; 0: what it is
}

// ask makes a request and gives its answer's error and data.
func (d *driver) ask(r request) (errno int32, data []byte, err error) {
	n := 40 + len(r.body)
	said := r.length
	if said == 0 {
		said = n
	}
	b := le.AppendUint32(le.AppendUint32(nil, uint32(said)), r.op)
	b = le.AppendUint64(le.AppendUint64(b, uint64(d.next)+1), r.node)
	b = append(b, make([]byte, 16)...) // root, in no group
	copy(d.memory[outAt:], append(b, r.body...))
	clear(d.memory[inAt : inAt+64<<10])
	if _, err := d.put(piece{outAt, uint32(n), descNext, 1}, piece{inAt, roomIn, descWrite, 0}); err != nil {
		return 0, nil, err
	}
	in := d.memory[inAt:]
	size := int(le.Uint32(in))
	if size < 16 || size > roomIn {
		return 0, nil, nil // nothing was answered
	}
	return int32(le.Uint32(in[4:])), bytes.Clone(in[16:size]), nil
}

// The requests of the kernel that are used here.
const (
	fuseLookup, fuseSetattr, fuseReadlink, fuseSymlink, fuseMknod, fuseMkdir = 1, 4, 5, 6, 8, 9
	fuseUnlink, fuseRename, fuseLink, fuseOpen, fuseRead, fuseWrite          = 10, 12, 13, 14, 15, 16
	fuseSetxattr, fuseInit, fuseOpendir, fuseReaddir, fuseCreate, fuseIoctl  = 21, 26, 27, 28, 35, 39
	fuseFallocate, fuseRename2, fuseCopy, fuseSetupMapping                   = 43, 45, 47, 48
)

func u32(words ...uint32) (b []byte) {
	for _, w := range words {
		b = le.AppendUint32(b, w)
	}
	return b
}

func u64(words ...uint64) (b []byte) {
	for _, w := range words {
		b = le.AppendUint64(b, w)
	}
	return b
}

// begin is what each driver says first.
func (d *driver) begin() {
	d.t.Helper()
	errno, _, err := d.ask(request{op: fuseInit, body: append(u32(7, 36, 1<<20, 0), make([]byte, 48)...)})
	if errno != 0 || err != nil {
		d.t.Fatalf("the first request: %d, %v", errno, err)
	}
}

// node is the number that a name in a folder has.
func (d *driver) node(of uint64, name string) uint64 {
	d.t.Helper()
	errno, data, err := d.ask(request{op: fuseLookup, node: of, body: []byte(name + "\x00")})
	if errno != 0 || err != nil || len(data) < 8 {
		d.t.Fatalf("%s: %d, %v", name, errno, err)
	}
	return le.Uint64(data)
}

// read is what a node has that may be opened.
func (d *driver) read(node uint64) string {
	errno, data, err := d.ask(request{op: fuseOpen, node: node, body: u32(unix.O_RDONLY, 0)})
	if errno != 0 || err != nil || len(data) < 8 {
		return fmt.Sprint("error ", errno, err)
	}
	_, data, _ = d.ask(request{op: fuseRead, node: node, body: append(u64(le.Uint64(data), 0), append(u32(4096, 0), make([]byte, 16)...)...)})
	return string(data)
}

// odd are the requests, by the numbers that the project, the system's folder, a link to what is outside and a file of
// the system's have.
func odd(project, system, link, held uint64) map[string]request {
	name := func(text string) []byte { return []byte(text + "\x00") }
	long := strings.Repeat("n", 255)
	return map[string]request{
		"a folder above the root":        {op: fuseLookup, node: 1, body: name("..")},
		"a way out":                      {op: fuseLookup, node: project, body: name("../../outside/canary")},
		"a whole path":                   {op: fuseLookup, node: project, body: name("/etc/passwd")},
		"a name with folders":            {op: fuseLookup, node: 1, body: name("project/file")},
		"no name":                        {op: fuseLookup, node: 1, body: name("")},
		"a name without an end":          {op: fuseLookup, node: 1, body: bytes.Repeat([]byte("x"), 8192)},
		"a name of 1 MiB":                {op: fuseLookup, node: 1, body: name(strings.Repeat("x", 1<<20-100))},
		"a name that is too long":        {op: fuseMkdir, node: project, body: append(u32(0o755, 0), name(long+"n")...)},
		"a link opened":                  {op: fuseOpen, node: link, body: u32(unix.O_RDWR, 0)},
		"a link opened and cut":          {op: fuseOpen, node: link, body: u32(unix.O_RDWR|unix.O_TRUNC, 0)},
		"a link's mode":                  {op: fuseSetattr, node: link, body: append(u32(1, 0), append(u64(0, 0, 0, 0, 0, 0), u32(0, 0, 0, 0o777, 0, 0, 0, 0)...)...)},
		"a link's attribute":             {op: fuseSetxattr, node: link, body: append(u32(1, 0), "user.x\x00y"...)},
		"a folder by a link":             {op: fuseLookup, node: link, body: name("canary")},
		"a name out of the view":         {op: fuseRename, node: project, body: append(u64(1), "file\x00../../moved\x00"...)},
		"a name above":                   {op: fuseRename, node: project, body: append(u64(1), "file\x00..\x00"...)},
		"a folder made above":            {op: fuseMkdir, node: 1, body: append(u32(0o755, 0), name("../made")...)},
		"a file made by a link":          {op: fuseCreate, node: link, body: append(u32(unix.O_RDWR, 0o644, 0, 0), name("new")...)},
		"a file of the system, to write": {op: fuseOpen, node: held, body: u32(unix.O_RDWR|unix.O_TRUNC, 0)},
		"a file of the system, removed":  {op: fuseUnlink, node: system, body: name("held")},
		"a name of the system":           {op: fuseLink, node: project, body: append(u64(held), name("alias")...)},
		"a device":                       {op: fuseMknod, node: project, body: append(u32(unix.S_IFBLK|0o666, 0x800, 0, 0), name("disk")...)},
		"a set-id file":                  {op: fuseMknod, node: project, body: append(u32(unix.S_IFREG|0o4755, 0, 0, 0), name("root")...)},
		"a set-id file, opened":          {op: fuseCreate, node: project, body: append(u32(unix.O_RDWR, 0o6755, 0, 0), name("root")...)},
		"a set-id folder":                {op: fuseMkdir, node: project, body: append(u32(0o2755, 0), name("folder")...)},
		"a number that none has":         {op: fuseOpen, node: 1 << 40, body: u32(unix.O_RDONLY, 0)},
		"the number 0":                   {op: fuseOpendir, node: 0, body: u32(0, 0)},
		"the greatest number":            {op: fuseLookup, node: 1<<64 - 1, body: name("x")},
		"an open file that is none":      {op: fuseRead, node: project, body: append(u64(1<<31, 0), append(u32(4096, 0), make([]byte, 16)...)...)},
		"a read of 4 GiB":                {op: fuseRead, node: project, body: append(u64(0, 1<<62), append(u32(1<<32-1, 0), make([]byte, 16)...)...)},
		"a write of more than there is":  {op: fuseWrite, node: project, body: append(u64(0, 0), append(u32(1<<31, 0), make([]byte, 16)...)...)},
		"a list of no folder":            {op: fuseReaddir, node: project, body: append(u64(99, 1<<63), append(u32(1<<31, 0), make([]byte, 16)...)...)},
		"a call for a device":            {op: fuseIoctl, node: project, body: append(u64(0), append(u32(0, 0x5412), append(u64(0), u32(64, 64)...)...)...)},
		"space beyond all":               {op: fuseFallocate, node: project, body: append(u64(99, 1<<62, 1<<62), u32(0, 0)...)},
		"a copy of what is not open":     {op: fuseCopy, node: project, body: u64(7, 0, project, 8, 0, 1<<40, 0)},
		"a file in QEMU's own memory":    {op: fuseSetupMapping, node: project, body: u64(0, 0, 1<<40, 3, 0)},
		"an exchange of names":           {op: fuseRename2, node: project, body: append(append(u64(1), u32(2, 0)...), "file\x00usr\x00"...)},
		"a link of 64 KiB":               {op: fuseSymlink, node: project, body: name("l\x00" + strings.Repeat("t", 64<<10))},
		"a first request once more":      {op: fuseInit, node: 0, body: append(u32(7, 1<<31, 1<<31, 0xffffffff), make([]byte, 48)...)},
		"a first request of long ago":    {op: fuseInit, node: 0, body: u32(1, 0, 0, 0)},
		"a request that is none":         {op: 0xffff, node: 1, body: make([]byte, 4096)},
		"a body that is too short":       {op: fuseRead, node: 1},
		"a header that says more":        {op: fuseLookup, node: 1, body: name("project"), length: 1 << 30},
		"a header that says nothing":     {op: fuseLookup, node: 1, body: name("project"), length: 1},
	}
}

// TestFrames hands the server of files what no kernel of ours would: it refuses, or ends, which ends the run. Nothing
// outside the view is read or written, nothing is made that has a set-id bit or is a device, and as long as it lives it goes
// on to serve. It needs QEMU's server of files, and to be root as the box's first process is in its user namespace.
func TestFrames(t *testing.T) {
	if _, err := os.Stat("/usr/lib/qemu/virtiofsd"); err != nil || os.Geteuid() != 0 {
		if os.Getenv("CLOISTER_MICROVM_KERNEL") != "" {
			t.Errorf("script/test microvm has both: %v", err)
		}
		t.Log("no virtiofsd, or not root: script/test microvm has both")
		return
	}
	base := t.TempDir()
	view, outside := filepath.Join(base, "view"), filepath.Join(base, "outside")
	const canary = "CANARY-OUTSIDE"
	for at, text := range map[string]string{view + "/project/file": "content\n", view + "/usr/held": "held\n", outside + "/canary": canary} {
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside+"/canary", view+"/project/link"); err != nil {
		t.Fatal(err)
	}
	d := serving(t, view)
	var project, system, link, held uint64
	fresh := func() { // a server that has not been told anything odd
		d.m.end()
		d = serving(t, view)
		d.begin()
		project, system = d.node(1, "project"), d.node(1, "usr")
		link, held = d.node(project, "link"), d.node(system, "held")
	}
	fresh()
	// The controls: it reads and writes what it may.
	if got := d.read(d.node(project, "file")); got != "content\n" {
		t.Fatalf("the file of the project is %q", got)
	}
	errno, _, err := d.ask(request{op: fuseMkdir, node: project, body: append(u32(0o755, 0), "made\x00"...)})
	if fi, lacks := os.Stat(view + "/project/made"); errno != 0 || err != nil || lacks != nil || !fi.IsDir() {
		t.Fatalf("a folder: %d, %v, %v", errno, err, lacks)
	}
	ended := 0
	frames := odd(project, system, link, held)
	for _, what := range slices.Sorted(maps.Keys(frames)) {
		r := odd(project, system, link, held)[what]
		errno, data, err := d.ask(r)
		t.Logf("%s: %d, %d bytes, %v", what, errno, len(data), err)
		if strings.Contains(string(data), canary) {
			t.Errorf("%s: the answer has what is outside", what)
		}
		if r.op == fuseLookup && errno == 0 && err == nil && len(data) >= 8 {
			// The root's own name for above is the root, and what a header says of its length is not believed.
			for _, name := range []string{"outside", "canary"} {
				errno, _, err := d.ask(request{op: fuseLookup, node: le.Uint64(data), body: []byte(name + "\x00")})
				if errno == 0 || err != nil {
					t.Errorf("%s: there is %s in what is found, %v", what, name, err)
				}
			}
		}
		if err != nil {
			ended++
			if !errors.Is(err, errSilent) && !strings.Contains(err.Error(), "virtiofsd ended") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err != nil || strings.HasPrefix(what, "a first request") {
			fresh()
		}
		if got := d.read(d.node(project, "file")); got != "content\n" {
			t.Errorf("after %s the project's file is %q", what, got)
		}
	}
	chains := map[string][]piece{
		"beyond the memory":         {{1 << 40, 4096, descNext, 1}, {inAt, 4096, descWrite, 0}},
		"across its end":            {{memorySize - 16, 1 << 20, descNext, 1}, {inAt, 4096, descWrite, 0}},
		"a ring":                    {{outAt, 40, descNext, 1}, {outAt, 40, descNext, 0}},
		"a next that is none":       {{outAt, 40, descNext, entries + 9}},
		"to write before to read":   {{inAt, 4096, descWrite | descNext, 1}, {outAt, 40, 0, 0}},
		"nothing to read":           {{inAt, 4096, descWrite, 0}},
		"nothing to write":          {{outAt, 40, 0, 0}},
		"a list elsewhere":          {{outAt, 16 * 3, 4, 0}},
		"half a header":             {{outAt, 7, descNext, 1}, {inAt, 4096, descWrite, 0}},
		"no room for an answer":     {{outAt, 40, descNext, 1}, {inAt, 3, descWrite, 0}},
		"more than the server has":  {{0, memorySize, descNext, 1}, {inAt, 4096, descWrite, 0}},
		"4 GiB less one of nothing": {{outAt, 1<<32 - 1, descNext, 1}, {inAt, 1<<32 - 1, descWrite, 0}},
	}
	for what, chain := range chains {
		fresh()
		n, err := d.put(chain...)
		t.Logf("%s: %d, %v", what, n, err)
		if err != nil && !errors.Is(err, errSilent) && !strings.Contains(err.Error(), "virtiofsd ended") {
			t.Errorf("%s: %v", what, err)
		}
	}
	t.Logf("%d of %d frames ended the server, or had no answer", ended, len(frames))
	if text, err := os.ReadFile(outside + "/canary"); err != nil || string(text) != canary {
		t.Errorf("outside: %q, %v", text, err)
	}
	if fi, err := os.Stat(outside + "/canary"); err != nil || fi.Mode().Perm() != 0o644 {
		t.Errorf("outside: %v, %v", fi, err)
	}
	if text, err := os.ReadFile(view + "/usr/held"); err != nil || string(text) != "held\n" {
		t.Errorf("the system's: %q, %v", text, err)
	}
	seen := map[string]os.FileMode{}
	for _, dir := range []string{base, view, view + "/usr", outside, view + "/project"} {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			fi, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			seen[strings.TrimPrefix(filepath.Join(dir, e.Name()), base)] = fi.Mode()
			if fi.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice) != 0 {
				t.Errorf("%s is %v", filepath.Join(dir, e.Name()), fi.Mode())
			}
		}
	}
	for _, at := range []string{"/view", "/outside", "/outside/canary", "/view/project", "/view/usr", "/view/usr/held", "/view/project/file",
		"/view/project/link", "/view/project/made"} {
		if _, is := seen[at]; !is {
			t.Errorf("%s is gone", at)
		}
		delete(seen, at)
	}
	for at := range seen {
		if !strings.HasPrefix(at, "/view/project/") {
			t.Errorf("%s was made", at)
		}
	}
	t.Logf("made in the project: %v", seen)
}
