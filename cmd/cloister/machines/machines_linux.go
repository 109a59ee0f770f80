package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"cloister/cmd/cloister/cli"
	"cloister/internal/xdg"
	"cloister/sandbox/microvm"
	"cloister/sandbox/microvm/engine"
	"cloister/sandbox/microvm/guest"
	"cloister/sandbox/microvm/kernel"
	"cloister/sandbox/microvm/monitor"
)

// Inside is one of a machine's programs, if the name says so.
func Inside(ctx context.Context, name string, args []string) (code int, is bool) {
	switch name {
	case guest.Name:
		return guest.Main(ctx), true
	case engine.Name:
		return engine.Main(args, os.Environ()), true
	case monitor.Name:
		return monitor.Main(ctx, args), true
	}
	return 0, false
}

// folder is where the kernel is installed.
func folder(d xdg.Dirs) string { return filepath.Join(d.Data, Level) }

// Driver is that of this instance.
func Driver(a *cli.App) (*microvm.Driver, error) {
	dirs, host, err := a.DirsAndResolver()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return microvm.New(microvm.Options{
		Instance: dirs.Runtime, Kernel: folder(dirs), Program: self, Path: filepath.SplitList(host.Path(a.Env.Get("PATH"))),
		Trusted: host.TrustedFile,
	}), nil
}

// setup installs a kernel and tries it.
func setup(ctx context.Context, a *cli.App, w *words) (err error) {
	dirs, err := a.Dirs()
	if err != nil {
		return err
	}
	d, err := Driver(a)
	if err != nil {
		return err
	}
	if err := d.Programs(); err != nil {
		return cli.Hinted(fmt.Errorf("setup microvm: %w", err), cli.HintsOf(err)...)
	}
	if err := os.MkdirAll(dirs.Data, 0o700); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dirs.Data, Level+"-setup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	image, modules, err := source(ctx, a, w, work)
	if err != nil {
		return err
	}
	if err := d.Remove(); err != nil {
		return err
	}
	k, err := kernel.Install(folder(dirs), image, modules, func(in io.Reader) ([]byte, error) {
		c, err := a.Program(ctx, "xz", "-dc")
		if err != nil {
			return nil, err
		}
		c.Stdin = in
		return c.Output()
	})
	if err != nil {
		return cli.Hinted(fmt.Errorf("setup microvm: %w", err), naming)
	}
	a.Notice("Linux %s, sha256:%s, with %d modules", k.Release, k.Image, len(k.Modules))
	tried, err := d.Try(ctx)
	if err != nil {
		return cli.Hinted(fmt.Errorf("setup microvm: boot a guest: %w", err), cli.HintsOf(err)...)
	}
	if tried.Template != nil {
		a.Notice("machines boot, as none was started from a template: %v", tried.Template)
	}
	if tried.KVM == nil {
		a.Line("a guest booted with KVM; use it: cloister run --isolation microvm")
		return nil
	}
	a.Notice("KVM: %v", tried.KVM)
	a.Line("a guest booted, emulated; use it: cloister run --isolation microvm --accept residue:%s", microvm.Residue)
	return nil
}

// naming is how a kernel is named.
const naming = "cloister setup microvm --kernel FILE --modules FOLDER"

// source is the kernel to install, and its modules.
func source(ctx context.Context, a *cli.App, w *words, work string) (image, modules string, err error) {
	switch {
	case w.kernel != "":
		image, modules = w.kernel, w.modules
		if modules == "" {
			modules = filepath.Join("/lib/modules", strings.TrimPrefix(filepath.Base(image), "vmlinuz-"))
		}
	case w.modules != "":
		return "", "", cli.Usage(naming, "setup microvm: --modules is for --kernel")
	default:
		if image, modules = inBoot("/boot", "/lib/modules"); image == "" {
			return fetched(ctx, a, work)
		}
	}
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return "", "", err
	}
	for _, path := range []string{image, modules} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return "", "", cli.Usage(naming, "setup microvm: there is no %s", path)
		}
		if err := host.Trusted(path); err != nil {
			return "", "", fmt.Errorf("setup microvm: %w", err)
		}
	}
	return image, modules, nil
}

// inBoot is the newest kernel of a folder that can be read and has its modules.
func inBoot(boot, modules string) (image, of string) {
	list, err := filepath.Glob(filepath.Join(boot, "vmlinuz-*"))
	if err != nil {
		return "", ""
	}
	var newest fs.FileInfo
	for _, at := range list {
		release := strings.TrimPrefix(filepath.Base(at), "vmlinuz-")
		fi, err := os.Stat(at)
		if _, lacks := os.Stat(filepath.Join(modules, release, "kernel")); err != nil || lacks != nil {
			continue
		}
		f, err := os.Open(at)
		if err != nil {
			continue // of root alone, as some distributions have it
		}
		f.Close()
		if newest == nil || fi.ModTime().After(newest.ModTime()) {
			image, of, newest = at, filepath.Join(modules, release), fi
		}
	}
	return image, of
}

// depends is the kernel that a package which stands for the newest one needs.
var depends = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*Depends: (linux-image-[0-9][^\s<]*)$`)
})

// fetched is the distribution's kernel for virtual machines, which apt holds to the archive's
// signature.
func fetched(ctx context.Context, a *cli.App, work string) (image, modules string, err error) {
	fail := func(err error) (string, string, error) {
		return "", "", cli.Hinted(fmt.Errorf("setup microvm: fetch a kernel: %w", err),
			"name one that you have: "+naming)
	}
	stands := "linux-image-cloud-" + runtime.GOARCH
	c, err := a.Program(ctx, "apt-cache", "depends", stands)
	if err != nil {
		return fail(err)
	}
	c.Env = append(c.Env, "LC_ALL=C")
	text, err := c.Output()
	if err != nil {
		return fail(fmt.Errorf("apt-cache depends %s: %w", stands, err))
	}
	found := depends().FindSubmatch(text)
	if found == nil {
		return fail(fmt.Errorf("apt knows no kernel for %s", stands))
	}
	name := string(found[1])
	a.Notice("fetching %s by apt: some 30 MB", name)
	if c, err = a.Program(ctx, "apt-get", "download", "-qq", name); err != nil {
		return fail(err)
	}
	c.Dir = work
	if said, err := c.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("apt-get download %s: %w: %s", name, err, last(said)))
	}
	packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(packages) != 1 {
		return fail(errors.Join(err, fmt.Errorf("apt-get left %d packages", len(packages))))
	}
	tree := filepath.Join(work, "tree")
	if c, err = a.Program(ctx, "dpkg-deb", "-x", packages[0], tree); err != nil {
		return fail(err)
	}
	if said, err := c.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("dpkg-deb: %w: %s", err, last(said)))
	}
	roots := []string{filepath.Join(tree, "lib/modules"), filepath.Join(tree, "usr/lib/modules")}
	for _, root := range roots {
		if image, modules = inBoot(filepath.Join(tree, "boot"), root); image != "" {
			return image, modules, nil
		}
	}
	return fail(fmt.Errorf("%s has no kernel with modules", name))
}

// last is the last line that a program said.
func last(said []byte) string {
	lines := slices.Collect(strings.Lines(strings.TrimSpace(string(said))))
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
