package files

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// xattrPrefix begins the extended attributes that hold a file's metadata.
const xattrPrefix = "user.e2b."

// Serve answers requests until in ends. It runs inside the sandbox.
func Serve(in io.Reader, out io.Writer) error {
	// Other programs of the payload's user could read or steer this one by ptrace else.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide memory: %w", err)
	}
	s := &server{
		r: bufio.NewReaderSize(in, 64<<10), w: bufio.NewWriterSize(out, 64<<10),
		users: map[uint32]string{}, groups: map[uint32]string{},
	}
	for {
		var q request
		err := readLine(s.r, &q)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		if err := s.do(q); err != nil {
			return err
		}
	}
}

type server struct {
	r             *bufio.Reader
	w             *bufio.Writer
	users, groups map[uint32]string
}

// do answers one request. An error is one of the streams: the program ends.
func (s *server) do(q request) error {
	switch q.Op { //nolint:exhaustive // those of one answer follow
	case opRead:
		return s.read(q)
	case opWrite:
		return s.write(q)
	case opWatch:
		return s.watch(q)
	case opPack:
		return s.pack(q)
	case opUnpack:
		return s.unpack(q)
	}
	a := answer{}
	var err error
	switch q.Op {
	case opStat:
		a.Entry, err = s.entry(q.Path)
	case opList:
		a.Entries, err = s.list(q.Path, q.Depth)
	case opMkdir:
		a.Entry, err = s.mkdir(q.Path)
	case opMove:
		a.Entry, err = s.move(q.Path, q.To)
	case opRemove:
		err = remove(q.Path)
	case opUsage:
		a.Usage, err = usage(q.Path)
	default:
		err = &Error{Invalid, fmt.Sprintf("unknown request %q", q.Op)}
	}
	if err != nil {
		a = refusal(err)
	}
	return writeLine(s.w, a)
}

// refusal is an error as it travels.
func refusal(err error) answer {
	if e, ok := errors.AsType[*Error](err); ok {
		return answer{Code: e.Code, Message: e.Message}
	}
	code := Failed
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = NotFound
	case errors.Is(err, fs.ErrExist):
		code = Exists
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		code = Full
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = Denied
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELOOP),
		errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOTEMPTY):
		code = Invalid
	}
	return answer{Code: code, Message: err.Error()}
}

func (s *server) entry(path string) (*Entry, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	e := s.describe(path, fi)
	return &e, nil
}

// describe gives a symbolic link the kind of what it leads to, as E2B's clients expect.
func (s *server) describe(path string, fi fs.FileInfo) Entry {
	e := Entry{Name: filepath.Base(path), Path: path, Size: fi.Size(), Text: fi.Mode().String(), Modified: fi.ModTime()}
	e.Mode = uint32(fi.Mode().Perm())
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		e.Owner, e.Group = s.userName(st.Uid), s.groupName(st.Gid)
		e.Mode = st.Mode & 0o7777
	}
	kind := fi.Mode().Type()
	if kind == fs.ModeSymlink {
		e.Target, _ = filepath.EvalSymlinks(path)
		if e.Target == "" {
			e.Target, _ = os.Readlink(path)
		}
		if to, err := os.Stat(path); err == nil {
			kind = to.Mode().Type()
		}
	}
	switch kind {
	case 0:
		e.Kind = File
	case fs.ModeDir:
		e.Kind = Dir
	case fs.ModeSymlink:
		e.Kind = Symlink
	default:
		e.Kind = Other
	}
	if e.Kind == File {
		e.Metadata = metadata(path)
	}
	return e
}

func (s *server) userName(id uint32) string {
	return named(s.users, id, func(n string) (string, error) {
		u, err := user.LookupId(n)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
}

func (s *server) groupName(id uint32) string {
	return named(s.groups, id, func(n string) (string, error) {
		g, err := user.LookupGroupId(n)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	})
}

func named(known map[uint32]string, id uint32, find func(string) (string, error)) string {
	if name, ok := known[id]; ok {
		return name
	}
	number := strconv.FormatUint(uint64(id), 10)
	name, err := find(number)
	if err != nil {
		name = number
	}
	known[id] = name
	return name
}

// metadata reads the attributes that a write gave a file.
func metadata(path string) map[string]string {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil || n <= 0 {
		return nil
	}
	var out map[string]string
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		key, ours := strings.CutPrefix(name, xattrPrefix)
		if !ours || strings.Contains(key, "=") { // no archive can have it, and no write gave it
			continue
		}
		value := make([]byte, 64<<10)
		if m, err := unix.Lgetxattr(path, name, value); err == nil {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = string(value[:m])
		}
	}
	return out
}

func (s *server) list(path string, depth int) ([]Entry, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, &Error{Invalid, path + " is not a directory"}
	}
	out := []Entry{}
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			if at == path {
				return err
			}
			return nil // it vanished, or is closed to this user
		}
		if at == path {
			return nil
		}
		if len(out) == MaxEntries {
			return &Error{TooMuch, fmt.Sprintf("%s has more than %d entries", path, MaxEntries)}
		}
		if fi, err := d.Info(); err == nil {
			out = append(out, s.describe(at, fi))
		}
		if d.IsDir() && strings.Count(strings.TrimPrefix(at, strings.TrimSuffix(path, "/")), "/") >= depth {
			return fs.SkipDir
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return out, err
}

func (s *server) mkdir(path string) (*Entry, error) {
	fi, err := os.Stat(path)
	if err == nil && fi.IsDir() {
		return nil, &Error{Exists, "directory already exists: " + path}
	}
	if err == nil {
		return nil, &Error{Invalid, "path already exists but it is not a directory: " + path}
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return s.entry(path)
}

func (s *server) move(from, to string) (*Entry, error) {
	if _, err := os.Lstat(from); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(from, to); err != nil {
		return nil, err
	}
	return s.entry(to)
}

// remove removes a file or a folder with all that is in it; what is not there is no error.
func remove(path string) error {
	if path == "/" {
		return &Error{Invalid, "the root cannot be removed"}
	}
	return os.RemoveAll(path)
}

func (s *server) read(q request) error {
	f, fi, err := openFile(q.Path)
	if err != nil {
		return writeLine(s.w, refusal(err))
	}
	defer f.Close()
	e := s.describe(q.Path, fi)
	if err := writeLine(s.w, answer{Entry: &e}); err != nil {
		return err
	}
	c := chunkWriter{s.w}
	// What was announced as a length is not exceeded, whatever is appended meanwhile.
	_, err = io.Copy(c, io.LimitReader(f, fi.Size()))
	if errors.Is(err, syscall.EPIPE) {
		return err
	}
	return c.end()
}

// openFile opens a regular file: a pipe would hold the program for ever.
func openFile(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	switch {
	case err != nil:
	case fi.IsDir():
		err = &Error{Invalid, "path '" + path + "' is a directory"}
	case !fi.Mode().IsRegular():
		err = &Error{Invalid, "path '" + path + "' is not a regular file"}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

func (s *server) write(q request) error {
	from := &chunkReader{r: s.r}
	e, err := s.store(q, from)
	if _, drain := io.Copy(io.Discard, from); drain != nil {
		return drain
	}
	if err != nil {
		return writeLine(s.w, refusal(err))
	}
	return writeLine(s.w, answer{Entry: e})
}

func (s *server) store(q request, from io.Reader) (*Entry, error) {
	if fi, err := os.Stat(q.Path); err == nil && !fi.Mode().IsRegular() {
		what := "not a regular file"
		if fi.IsDir() {
			what = "a directory"
		}
		return nil, &Error{Invalid, "path is " + what + ": " + q.Path}
	}
	if err := os.MkdirAll(filepath.Dir(q.Path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(q.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = mark(f, q.Metadata)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return s.entry(q.Path)
}

// mark replaces a file's metadata.
func mark(f *os.File, with map[string]string) error {
	for key := range metadata(f.Name()) {
		if err := unix.Fremovexattr(int(f.Fd()), xattrPrefix+key); err != nil {
			return fmt.Errorf("remove metadata: %w", err)
		}
	}
	for key, value := range with {
		if err := unix.Fsetxattr(int(f.Fd()), xattrPrefix+key, []byte(value), 0); err != nil {
			return fmt.Errorf("write metadata: %w", err)
		}
	}
	return nil
}

// usage adds up every process of the sandbox's process namespace, and looks at its machine.
func usage(path string) (*Usage, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	u := &Usage{CPUs: runtime.NumCPU()}
	var info unix.Sysinfo_t
	var disk unix.Statfs_t
	if err := errors.Join(unix.Sysinfo(&info), unix.Statfs(path, &disk)); err != nil {
		return nil, err
	}
	u.Memory = int64(uint64(info.Totalram) * uint64(info.Unit))
	u.Disk = int64(disk.Blocks) * disk.Bsize
	u.DiskUsed = u.Disk - int64(disk.Bavail)*disk.Bsize
	for _, name := range names {
		ticks, pages := account(name)
		u.Ticks += ticks
		u.Bytes += pages * int64(os.Getpagesize())
	}
	return u, nil
}

// account reads a process's ticks of processor time and pages of memory (proc(5)).
func account(name string) (ticks, pages int64) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, 0 // it has ended
	}
	_, after, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), " ")
	f := strings.Fields(after)
	if len(f) < 22 {
		return 0, 0
	}
	for _, n := range f[11:13] {
		t, _ := strconv.ParseInt(n, 10, 64) // the kernel writes numbers
		ticks += t
	}
	pages, _ = strconv.ParseInt(f[21], 10, 64) // the same
	return ticks, pages
}
