package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Host is a machine whose installed packages an image can be made of.
type Host struct {
	Root string // where its files are, / for this machine
	// Packages are taken with everything that they depend on, besides what every
	// Debian has and those of basePackages that are installed.
	Packages []string
	// Programs are files of this machine that belong to no package: the agents,
	// which npm installs. Each is taken with its own package of npm's, if it has
	// one, and is found in /usr/local/bin.
	Programs []string
}

// basePackages are what an agent works with.
var basePackages = strings.Fields(`bash bzip2 ca-certificates coreutils curl diffutils file findutils g++ gawk gcc git
	golang-go grep gzip hostname
	iproute2 jq less libc-bin libc6-dev make nodejs npm openssh-client patch procps python3 python3-pip python3-venv
	ripgrep sed tar unzip util-linux wget xz-utils zip`)

// leftOut are folders that only people read, or that a kernel does.
var leftOut = []string{"usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/lintian", "usr/share/locale",
	"usr/lib/modules", "lib/modules", "boot"}

// unlisted are files that belong to no package and that programs need: they are
// made when packages are installed.
var unlisted = []string{"etc/alternatives", "etc/ld.so.cache", "etc/passwd", "etc/group", "etc/localtime",
	"etc/timezone", "etc/ssl/certs", "etc/shells",
	"usr/lib/node_modules/npm"} // it replaces itself, and is then more than its package

// errNoPackages says that a machine has no packages to make an image of.
var errNoPackages error = &hinted{errors.New("this machine has no package database of dpkg"),
	"make an image from an archive instead: cloister image pull ./ARCHIVE.tar"}

// FromHost makes an image of this machine's own packages, for machines that can
// fetch none.
func (s *Store) FromHost(ctx context.Context, h Host, named string) (Image, error) {
	ref, err := name.ParseReference(named)
	if err != nil {
		return Image{}, &Malformed{named}
	}
	if strings.Contains(named, "@") {
		return Image{}, fmt.Errorf("name image %s: a digest is not given but found", named)
	}
	packages, err := h.closure()
	if err != nil {
		return Image{}, fmt.Errorf("make image %s: %w", named, err)
	}
	files, err := h.files(packages)
	if err != nil {
		return Image{}, fmt.Errorf("make image %s: %w", named, err)
	}
	own, err := h.programs(files)
	if err != nil {
		return Image{}, fmt.Errorf("make image %s: %w", named, err)
	}
	return s.adding(ctx, "make image "+named, func(tmp string) (Image, error) {
		i, err := s.copyHost(ctx, tmp, h, files, own)
		if err != nil {
			return Image{}, err
		}
		i.Names = []string{canonical(ref)}
		return s.addHost(filepath.Join(tmp, "root"), i)
	})
}

// addHost enters a root that was made. The same packages make the same image.
func (s *Store) addHost(root string, i Image) (Image, error) {
	images, err := s.List()
	if err != nil {
		return Image{}, err
	}
	if at := slices.IndexFunc(images, func(o Image) bool { return o.ID == i.ID }); at >= 0 {
		i = merge(images[at], i)
	} else if err := s.place(root, i); err != nil {
		return Image{}, err
	}
	return i, s.enter(images, i)
}

func (s *Store) copyHost(ctx context.Context, tmp string, h Host, files []string, own []program) (Image, error) {
	u, err := newUnpacker(filepath.Join(tmp, "root"))
	if err != nil {
		return Image{}, err
	}
	defer u.root.Close()
	u.made = map[string]bool{}
	c := &copier{u: u, sum: sha256.New(), linked: map[[2]uint64]string{}}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return Image{}, err
		}
		if err := c.copy(filepath.Join(h.Root, name), name); err != nil {
			return Image{}, fmt.Errorf("copy /%s: %w", name, err)
		}
	}
	for _, p := range own {
		if err := c.program(ctx, p); err != nil {
			return Image{}, fmt.Errorf("copy %s: %w", p.from, err)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	config, err := json.Marshal(v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		Config: v1.Config{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: hex.EncodeToString(c.sum.Sum(nil))}}},
	})
	if err != nil {
		return Image{}, err
	}
	id := sha256.Sum256(config)
	return Image{
		ID: "sha256:" + hex.EncodeToString(id[:]), Source: "this machine's packages", OS: "linux", Arch: runtime.GOARCH,
		Size: u.bytes, Files: u.entries, LeftOut: u.leftOut, Created: now, Stored: now,
	}, nil
}

// closure is what the wanted packages need, themselves included, in order.
func (h Host) closure() ([]string, error) {
	installed, provided, err := h.installed()
	if err != nil {
		return nil, err
	}
	var todo []string
	for name, p := range installed {
		if p.essential || slices.Contains(basePackages, name) {
			todo = append(todo, name)
		}
	}
	for _, name := range h.Packages {
		if installed[name] == nil && provided[name] == "" {
			return nil, &hinted{fmt.Errorf("the package %s is not installed here", name), "apt-get install " + name}
		}
		todo = append(todo, name)
	}
	taken := map[string]bool{}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if installed[name] == nil {
			name = provided[name]
		}
		p := installed[name]
		if p == nil || taken[name] {
			continue
		}
		taken[name] = true
		for _, alternatives := range p.depends {
			// Whichever of them is here is what the dependency is met by.
			at := slices.IndexFunc(alternatives, func(n string) bool { return installed[n] != nil || provided[n] != "" })
			if at >= 0 {
				todo = append(todo, alternatives[at])
			}
		}
	}
	out := make([]string, 0, len(taken))
	for name := range taken {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

type debian struct {
	essential bool
	depends   [][]string
}

// installed reads dpkg's database (deb822(5)).
func (h Host) installed() (map[string]*debian, map[string]string, error) {
	f, err := os.Open(filepath.Join(h.Root, "var/lib/dpkg/status"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNoPackages
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	packages, provided := map[string]*debian{}, map[string]string{}
	field := map[string]string{}
	end := func() {
		if name := field["Package"]; name != "" && strings.HasSuffix(field["Status"], " installed") {
			p := &debian{essential: field["Essential"] == "yes"}
			for _, list := range []string{"Pre-Depends", "Depends"} {
				p.depends = append(p.depends, relations(field[list])...)
			}
			packages[name] = p
			for _, alternatives := range relations(field["Provides"]) {
				provided[alternatives[0]] = name
			}
		}
		clear(field)
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			end()
			continue
		}
		if key, value, ok := strings.Cut(line, ":"); ok && line[0] != ' ' && line[0] != '\t' {
			field[key] = strings.TrimSpace(value)
		}
	}
	end()
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("read dpkg's database: %w", err)
	}
	if len(packages) == 0 {
		return nil, nil, errNoPackages
	}
	return packages, provided, nil
}

// relations takes "a (>= 1) | b:any, c" apart.
func relations(text string) [][]string {
	var out [][]string
	for group := range strings.SplitSeq(text, ",") {
		var alternatives []string
		for one := range strings.SplitSeq(group, "|") {
			words := strings.Fields(one)
			if len(words) == 0 {
				continue
			}
			name, _, _ := strings.Cut(words[0], ":")
			name, _, _ = strings.Cut(name, "(")
			alternatives = append(alternatives, name)
		}
		if len(alternatives) > 0 {
			out = append(out, alternatives)
		}
	}
	return out
}

// files lists what the packages installed, in order, relative to the root.
func (h Host) files(packages []string) ([]string, error) {
	seen := map[string]bool{}
	for _, p := range packages {
		lists, err := filepath.Glob(filepath.Join(h.Root, "var/lib/dpkg/info", p+"*.list"))
		if err != nil {
			return nil, err
		}
		for _, list := range lists {
			if base := strings.TrimSuffix(filepath.Base(list), ".list"); base != p && !strings.HasPrefix(base, p+":") {
				continue
			}
			text, err := os.ReadFile(list)
			if err != nil {
				return nil, err
			}
			for line := range bytes.Lines(text) {
				seen[strings.Trim(string(line), "/\n")] = true
			}
		}
	}
	for _, name := range append(slices.Clone(unlisted), "bin", "sbin", "lib", "lib32", "lib64", "libx32") {
		err := filepath.WalkDir(filepath.Join(h.Root, name), func(path string, _ fs.DirEntry, err error) error {
			rel, relErr := filepath.Rel(h.Root, path)
			if err != nil || relErr != nil {
				return nil // absent here, or closed to this user
			}
			if slices.Contains(unlisted, name) || rel == name {
				seen[rel] = true
			}
			if rel == name && !slices.Contains(unlisted, name) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if err := h.alternatives(seen); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(seen))
	for name := range seen {
		if name != "" && name != "." && !slices.ContainsFunc(leftOut, func(dir string) bool {
			return name == dir || strings.HasPrefix(name, dir+"/")
		}) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// alternatives adds the names that update-alternatives made for programs of the
// packages, such as awk: they stand in no package's list.
func (h Host) alternatives(seen map[string]bool) error {
	for _, dir := range []string{"usr/bin", "usr/sbin"} {
		entries, err := os.ReadDir(filepath.Join(h.Root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			to, err := os.Readlink(filepath.Join(h.Root, dir, e.Name()))
			if err != nil || !strings.HasPrefix(to, "/etc/alternatives/") {
				continue // no link, or another
			}
			program, err := os.Readlink(filepath.Join(h.Root, to))
			if err == nil && seen[strings.Trim(program, "/")] {
				seen[dir+"/"+e.Name()] = true
			}
		}
	}
	return nil
}

// copier puts files of the host into a root, and sums up what they are.
type copier struct {
	u      *unpacker
	sum    hash.Hash
	linked map[[2]uint64]string // files with several names, by device and inode
	open   bool                 // whoever may not read a file here may in the image
}

// copy puts the host's file full at a name of the image.
func (c *copier) copy(full, name string) error {
	fi, err := os.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by hand since it was installed
	}
	if err != nil {
		return err
	}
	to := ""
	if fi.Mode()&fs.ModeSymlink != 0 {
		if to, err = os.Readlink(full); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(fi, to)
	if err != nil {
		c.u.leftOut++
		return nil // a socket
	}
	h.Name = name
	if c.open {
		h.Mode |= 0o444 | h.Mode>>6&0o111 | h.Mode>>3&0o111
	}
	var body io.Reader = strings.NewReader("")
	if h.Typeflag == tar.TypeReg {
		f, err := os.Open(full)
		if errors.Is(err, fs.ErrPermission) {
			c.u.leftOut++ // closed to this user, as it would be to the agent
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		body = io.TeeReader(f, c.sum)
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
			key := [2]uint64{uint64(st.Dev), st.Ino} // narrower on other systems
			if first := c.linked[key]; first != "" {
				h.Typeflag, h.Linkname = tar.TypeLink, first
			} else {
				c.linked[key] = name
			}
		}
	}
	fmt.Fprintf(c.sum, "\n%q %c %o %q\n", name, h.Typeflag, h.Mode&0o777, h.Linkname)
	c.u.entries++
	return c.u.entry(h, body)
}
