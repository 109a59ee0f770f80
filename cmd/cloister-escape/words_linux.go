package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cloister/escape"
	"cloister/escape/corpus"
)

// options are the words typed.
type options struct {
	escape.Options
	only, skip, part, holds, document, columns string
	isolation, image, images, machine, cluster string
	write, short, verbose, together, again     bool
}

const usage = `Usage: cloister-escape [flags]

Makes every attempt of the corpus against a cloister binary, on this host and as
the user who calls it: first inside cloisters, then outside as a control, which
must come off. Prints a row for each case: its name, ok or FAIL, what it tries, how
many tries were held, how many controls came off, what stopped it and where it was
seen. Nothing of yours is touched; worlds are made below -dir and removed.

Status 0: every case passed. 1: one did not, or the corpus could not be run.
2: the words typed are wrong.

  go build ./cmd/cloister && go run ./cmd/cloister-escape -cloister ./cloister
  cloister-escape -run '^NW-' -v     every try of the network's cases

Flags:
`

func parse(words []string) (options, error) {
	var o options
	f := flag.NewFlagSet("cloister-escape", flag.ContinueOnError)
	f.StringVar(&o.Cloister, "cloister", "", "the `binary` to try; else the one beside this program, or on PATH")
	f.StringVar(&o.Off, "off", "", "the same `binary`, built with -tags cloister_layeroff, to leave out layers")
	f.BoolVar(&o.Layers, "layers", false, "leave out each layer in turn")
	f.StringVar(&o.Dir, "dir", "/var/tmp", "`folder` to make worlds in, not below /tmp")
	f.StringVar(&o.only, "run", "", "only cases whose name matches this `pattern`")
	f.StringVar(&o.skip, "skip", "", "none of the cases whose name matches this `pattern`; empty: skip none")
	f.StringVar(&o.holds, "holds", "", "`file` of what second layers hold, to compare with")
	f.BoolVar(&o.write, "write", false, "write what was seen into that file instead; other cases' lines stay")
	f.StringVar(&o.document, "document", "",
		"write docs/attempts.md and the table in SECURITY.md of this `repository` from its files of holds, try nothing")
	f.StringVar(&o.isolation, "isolation", "",
		"what cloisters are built of: "+strings.Join(escape.Isolations(), ", ")+" (docker: the engine of DOCKER_HOST)")
	f.StringVar(&o.machine, "machine", "",
		"`folder` with the kernel of microvm's guests, a data folder's microvm after setup microvm, below -dir")
	f.StringVar(&o.cluster, "cluster", "",
		"`folder` with what setup kubernetes wrote, a data folder's kubernetes; its image has this program")
	f.StringVar(&o.image, "image", "", "the system inside: an image's `name`, or ./ARCHIVE.tar")
	f.StringVar(&o.images, "images", "", "`folder` of images that are unpacked already, an instance's images")
	f.StringVar(&o.columns, "columns", "", "`file` of what was held in each kind of cloister, to which this is added")
	f.StringVar(&o.part, "part", "", "only every OFth of these cases from the Nth on, as `N/OF`, so that parts run side "+
		"by side")
	f.IntVar(&o.AtOnce, "at-once", 1, "so many `cases` side by side that have a cloister of their own, "+
		"and so many layers left out")
	f.BoolVar(&o.short, "short", false, "only cases that share one cloister, and those of this kind of cloister alone")
	f.BoolVar(&o.together, "together", false, "commands of one case share a cloister where it allows that, as in machines")
	f.BoolVar(&o.again, "again", false, "try those once more that did not pass though nothing came off: "+
		"a control failed, a machine did not boot, an answer is missing")
	f.BoolVar(&o.verbose, "v", false, "print every try")
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	if slices.ContainsFunc(words, func(w string) bool {
		return w == "-h" || w == "-help" || w == "--help" || w == "help"
	}) {
		f.SetOutput(os.Stdout)
		f.Usage()
		return o, &statusError{0}
	}
	if err := f.Parse(words); err != nil {
		return o, &statusError{2}
	}
	if f.NArg() > 0 {
		return o, wrong("%q is no flag: want -cloister BINARY, or -run PATTERN for some cases", f.Arg(0))
	}
	if o.document != "" {
		return o, nil
	}
	return o, o.settle()
}

// wrong words are reported with where to look.
func wrong(format string, args ...any) error {
	fmt.Fprintf(os.Stderr, "cloister-escape: "+format+"\nhint: cloister-escape -h\n", args...)
	return &statusError{2}
}

// settle finds the binaries and folders that words name. Worlds have their own
// current folder, so each path is a whole one.
func (o *options) settle() error {
	var err error
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	if o.Cloister == "" {
		beside := filepath.Join(filepath.Dir(o.Self), "cloister")
		if _, err := os.Stat(beside); err == nil {
			o.Cloister = beside
		} else if o.Cloister, err = exec.LookPath("cloister"); err != nil {
			return wrong("there is no cloister beside this program nor on PATH: name one with -cloister BINARY")
		}
	}
	if o.Layers && o.Off == "" {
		return wrong("-layers needs -off, a binary built with -tags cloister_layeroff")
	}
	for _, path := range []*string{&o.Cloister, &o.Off} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
		if err := program(*path); err != nil {
			return wrong("%v", err)
		}
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(o.Dir); err != nil {
		return wrong("-dir: %v", err)
	} else if real == "/tmp" || strings.HasPrefix(real, "/tmp/") {
		return wrong("-dir %s is below /tmp, which every cloister has for itself", o.Dir)
	}
	if o.isolation != "" && !slices.Contains(escape.Isolations(), o.isolation) {
		return wrong("-isolation %q: want one of %s", o.isolation, strings.Join(escape.Isolations(), ", "))
	}
	if (o.isolation == "microvm") != (o.machine != "") {
		return wrong("-isolation microvm and -machine FOLDER belong together")
	}
	if (o.isolation == "kubernetes") != (o.cluster != "") {
		return wrong("-isolation kubernetes and -cluster FOLDER belong together")
	}
	o.Kind, err = enclosure(o.isolation, o.image, o.images, o.machine)
	o.Kind.Cluster = o.cluster
	o.Kind.Together = o.together || o.machine != ""
	return err
}

// program reports whether a file can be executed.
func program(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there", path)
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is no program", path)
	}
	return nil
}

// cases are those that the words choose.
func (o options) cases() ([]escape.Case, error) {
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return nil, wrong("-run: %v", err)
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return nil, wrong("-skip: %v", err)
	}
	out := slices.DeleteFunc(corpus.All(), func(c escape.Case) bool {
		return !pattern.MatchString(c.ID) || o.skip != "" && skip.MatchString(c.ID) || !c.In(o.Kind.Column())
	})
	if o.Layers { // the others have a cloister of their own, of which nothing would be left out
		out = slices.DeleteFunc(out, func(c escape.Case) bool { return !c.Shares() && !c.Concerns(o.Kind.Column()) })
	}
	if o.short {
		out = slices.DeleteFunc(out, func(c escape.Case) bool { return !c.Shares() && c.Only == nil })
	}
	if o.part != "" {
		n, of := 0, 0
		if _, err := fmt.Sscanf(o.part, "%d/%d", &n, &of); err != nil || n < 1 || n > of || o.part != fmt.Sprintf("%d/%d", n,
			of) {
			return nil, wrong("-part is %q: it is N/OF, such as 1/2", o.part)
		}
		all := out
		out = nil
		for i := n - 1; i < len(all); i += of {
			out = append(out, all[i])
		}
		return out, nil // of few cases a part may have none
	}
	if len(out) == 0 {
		return nil, wrong("no case matches %q here; docs/attempts.md names them all", o.only)
	}
	return out, nil
}

// enclosure is what cloisters are built of, its files by their whole paths: each
// world has its own current folder.
func enclosure(isolation, image, images, machine string) (escape.Enclosure, error) {
	e := escape.Enclosure{Isolation: isolation, Image: image, Images: images, Machine: machine,
		Engine: os.Getenv("DOCKER_HOST")}
	for _, path := range []*string{&e.Image, &e.Images, &e.Machine} {
		if !strings.HasPrefix(*path, ".") {
			continue
		}
		full, err := filepath.Abs(*path)
		if err != nil {
			return e, err
		}
		*path = full
	}
	return e, nil
}
