package image

import (
	"archive/tar"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/shebang"
)

// program is one of the host's that no package of dpkg's installed.
type program struct {
	name string // by which it is called
	from string // what is copied: its package of npm's, or the file alone
	to   string // where that goes in the image
	main string // the program within; empty where it is the file itself
}

const ownPrograms = "usr/local/bin"

// programs finds what belongs to each program. files are those that the image has
// of packages.
func (h Host) programs(files []string) ([]program, error) {
	var out []program
	for _, file := range h.Programs {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return nil, err
		}
		fi, err := os.Stat(real)
		if err != nil {
			return nil, err
		}
		if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0 {
			return nil, fmt.Errorf("%s is no program", file)
		}
		script, err := interpreter(real)
		if err != nil {
			return nil, err
		}
		p := program{name: filepath.Base(file), from: real, to: path.Join(ownPrograms, filepath.Base(file))}
		dir, module := npmPackage(real)
		switch {
		case dir != "":
			p.from, p.to, p.main = dir, path.Join("usr/local/lib/node_modules", module), strings.TrimPrefix(real, dir+"/")
		case script.Interpreter != "":
			return nil, &hinted{fmt.Errorf("%s is a script outside of npm's packages: what it needs besides is not known", file),
				"show it with what it needs in each cloister instead: --expose DIR"}
		}
		if strings.Contains(script.Interpreter+" "+script.Argument, "node") && !slices.Contains(files, "usr/bin/node") {
			return nil, &hinted{fmt.Errorf("%s needs node, which is no installed package here", file), "apt-get install nodejs"}
		}
		out = append(out, p)
	}
	return out, nil
}

// npmPackage is the folder of the package that a file belongs to, and its name.
func npmPackage(file string) (dir, module string) {
	const modules = "/node_modules/"
	at := strings.Index(file, modules)
	if at < 0 {
		return "", ""
	}
	at += len(modules)
	words := strings.SplitN(file[at:], "/", 3)
	n := 1
	if strings.HasPrefix(words[0], "@") {
		n = 2
	}
	if len(words) <= n {
		return "", "" // a file beside the packages
	}
	module = strings.Join(words[:n], "/")
	return file[:at] + module, module
}

// interpreter is the first line of a script; empty for other programs.
func interpreter(file string) (shebang.Line, error) {
	f, err := os.Open(file)
	if err != nil {
		return shebang.Line{}, err
	}
	defer f.Close()
	return shebang.Read(f)
}

// program puts a program, with what belongs to it, into the image.
func (c *copier) program(ctx context.Context, p program) error {
	c.open = true // a person's umask is not for the image's user
	err := filepath.WalkDir(p.from, func(full string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return c.copy(full, path.Join(p.to, strings.TrimPrefix(full, p.from)))
	})
	if err != nil || p.main == "" {
		return err
	}
	name, to := path.Join(ownPrograms, p.name), path.Join("/", p.to, p.main)
	fmt.Fprintf(c.sum, "\n%q link %q\n", name, to)
	c.u.entries++
	return c.u.entry(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, nil)
}
