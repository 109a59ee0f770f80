package hostexec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"cloister/host/resolve"

	"golang.org/x/sys/unix"
)

// Prepared is a command that was looked at, with its folder held open: whatever
// is renamed meanwhile, it runs in that folder or not at all.
type Prepared struct {
	Command
	dir     *os.File
	host    Host
	request Request

	resolver *resolve.Resolver
	script   *os.File // a sealed copy of the script that an interpreter is given
	at       int      // the argument that names it
}

// Close lets go of what is held.
func (p *Prepared) Close() {
	p.dir.Close()
	if p.script != nil {
		p.script.Close()
	}
}

// Prepare looks at a request: which program, in which folder, with which files.
// The error is a *Refused, or says what of the host could not be looked at.
func Prepare(req Request, host Host) (*Prepared, error) {
	argv, err := arguments(req)
	if err != nil {
		return nil, err
	}
	host.Foreign = slices.Clone(host.Foreign)
	for _, dir := range host.Foreign {
		// Programs are looked at by where they are.
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			host.Foreign = append(host.Foreign, real)
		}
	}
	resolver, err := host.Resolver()
	if err != nil {
		return nil, err
	}
	// Also for what the command starts in its turn.
	host.Path, host.Env = resolver.Path(host.Path), resolver.Environment(host.Env)
	p := &Prepared{host: host, request: req, resolver: resolver}
	p.Argv, p.Env = argv, host.Env
	if callsGit(argv[0]) {
		p.Env = append(slices.Clone(host.Env), "GIT_DIR=/nonexistent")
	}
	if err := p.openDir(string(req.Dir)); err != nil {
		return nil, err
	}
	if err := p.look(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func arguments(req Request) ([]string, error) {
	if len(req.Argv) == 0 || len(req.Argv[0]) == 0 {
		return nil, refuse("no command")
	}
	if len(req.Argv) > MaxArgs {
		return nil, refuse("more than %d arguments", MaxArgs)
	}
	var out []string
	size := 0
	for i, a := range req.Argv {
		if size += len(a); size > MaxArgv {
			return nil, refuse("the arguments have more than %d bytes", MaxArgv)
		}
		if slices.Contains(a, 0) {
			return nil, refuse("argument %d holds a NUL byte", i)
		}
		out = append(out, string(a))
	}
	return out, nil
}

// look fills in program and operands.
func (p *Prepared) look() error {
	if err := p.program(); err != nil {
		return err
	}
	if err := p.operands(); err != nil {
		return err
	}
	return p.implied()
}

// openDir opens the folder by a path inside, which must lie in the project.
func (p *Prepared) openDir(inside string) error {
	root := p.host.Project
	rel, ok := below(inside, root)
	if !ok && p.host.Inside != "" {
		rel, ok = below(inside, p.host.Inside)
	}
	if !ok {
		return &Refused{Reason: fmt.Sprintf("the folder %q is not in the project", inside),
			Hint: "host commands run in " + root + " and below it"}
	}
	fd, err := openBeneath(root, rel, unix.O_DIRECTORY|unix.O_RDONLY)
	if err != nil {
		return refuse("the folder %q: %v", inside, err)
	}
	p.dir = os.NewFile(uintptr(fd), root)
	if p.Dir, err = where(p.dir); err != nil {
		p.dir.Close()
		return err
	}
	if _, ok := below(p.Dir, root); !ok {
		p.dir.Close()
		return refuse("the folder %q is not in the project any more", inside)
	}
	return nil
}

// where is what the kernel calls an open folder now.
func where(f *os.File) (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return "", fmt.Errorf("look at the folder: %w", err)
	}
	return path, nil
}

// below cuts root off a clean absolute path.
func below(path, root string) (string, bool) {
	if !filepath.IsAbs(path) {
		return "", false
	}
	rel, err := filepath.Rel(root, filepath.Clean(path))
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return rel, true
}

// openBeneath opens rel below root without leaving it, whatever the cloister
// renames meanwhile (openat2(2), Linux 5.6).
func openBeneath(root, rel string, flags uint64) (int, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	for range 8 {
		fd, err := unix.Openat2(dir, rel, &unix.OpenHow{
			Flags:   flags | unix.O_CLOEXEC | unix.O_NONBLOCK,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		// EAGAIN: something was renamed on the way (openat2(2)).
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// program finds the program outside of everything that the cloister writes.
func (p *Prepared) program() error {
	name := p.Argv[0]
	if !utf8.ValidString(name) {
		return refuse("the name of the program is not text")
	}
	var path string
	switch {
	case filepath.IsAbs(name):
		path = filepath.Clean(name)
	case strings.ContainsRune(name, '/'):
		return &Refused{Reason: fmt.Sprintf("%q: the program is a name, or a whole path outside the project", name)}
	default:
		if path = p.lookUp(name); path == "" {
			return &Refused{Reason: fmt.Sprintf("%q: there is no such program on the host", name), NotFound: true}
		}
	}
	if ofProcess(path) {
		return refuse("%q: it means another file for each process", name)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return &Refused{Reason: fmt.Sprintf("%q: %v", name, errors.Unwrap(err)), NotFound: errors.Is(err, fs.ErrNotExist)}
	}
	for _, one := range []string{path, real} {
		if at := p.foreign(one); at != "" {
			return refuse("%q: the program lies in %s, which the cloister can write", name, at)
		}
	}
	if slices.Contains(p.host.Self, real) {
		return refuse("%q: cloister is the person's: nothing inside a cloister can use it on the host", name)
	}
	if err := p.file(path, real); err != nil {
		return err
	}
	if _, err := p.resolver.Program(path, ""); err != nil {
		return refuse("%q: %v", name, err)
	}
	return nil
}

// ofProcess reports whether a path leads through what the kernel resolves anew for
// whoever asks: looked at here it is one file, and for the command another, which
// the cloister may have written.
func ofProcess(path string) bool {
	path = filepath.Clean(path)
	if rest, is := strings.CutPrefix(path, "/proc/"); is {
		parts := strings.Split(rest, "/")
		return slices.ContainsFunc(parts, func(p string) bool {
			return slices.Contains([]string{"cwd", "root", "fd", "exe", "map_files", "fdinfo"}, p)
		})
	}
	for _, dir := range []string{"/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return path != "/dev/stdin" && path != "/dev/stdout" && path != "/dev/stderr"
		}
	}
	return false
}

// lookUp searches PATH, skipping what is no place for programs of the host.
func (p *Prepared) lookUp(name string) string {
	for _, dir := range filepath.SplitList(p.host.Path) {
		if !filepath.IsAbs(dir) || p.foreign(dir) != "" {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// foreign names the folder that the cloister can write in which a path lies.
func (p *Prepared) foreign(path string) string {
	for _, dir := range append([]string{p.host.Project}, p.host.Foreign...) {
		if _, in := below(path, dir); in {
			return dir
		}
	}
	return ""
}

func (p *Prepared) file(path, real string) error {
	f, err := os.Open(real)
	if err != nil {
		return refuse("%q: %v", p.Argv[0], err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", real, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0:
		return refuse("%q: %s is no program", p.Argv[0], real)
	case st.Mode&0o002 != 0:
		return refuse("%q: everybody on this machine may write %s", p.Argv[0], real)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("read %s: %w", real, err)
	}
	p.Program, p.Real = path, real
	p.Inode = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	p.Sum = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return nil
}

// Again looks at everything once more and refuses what is not as it was.
func (p *Prepared) Again() (*Prepared, error) {
	now, err := Prepare(p.request, p.host)
	if err != nil {
		if r, ok := errors.AsType[*Refused](err); ok {
			return nil, &Refused{Reason: "it changed after it was approved: " + r.Reason, Changed: true}
		}
		return nil, err
	}
	was, errWas := where(p.dir)
	if now.Grant() != p.Grant() || errWas != nil || was != p.Dir {
		why := changed(&p.Command, &now.Command)
		now.Close()
		return nil, &Refused{Reason: "it changed after it was approved: " + why, Changed: true}
	}
	return now, nil
}

// changed names the first difference.
func changed(was, now *Command) string {
	switch {
	case was.Program != now.Program || was.Real != now.Real || was.Inode != now.Inode || was.Sum != now.Sum:
		return "the program"
	case was.Dir != now.Dir:
		return "the folder"
	case !slices.Equal(was.Env, now.Env):
		return "the environment"
	case !slices.Equal(was.Operands, now.Operands):
		for _, o := range was.Operands {
			if !slices.Contains(now.Operands, o) {
				return "the file " + o.Path
			}
		}
		return "the files that it names"
	}
	return "the folder"
}
