package escape

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Enclosure is what the cloisters of a world are built of. The zero value is the
// native driver's view of this host.
type Enclosure struct {
	Isolation string // one of Isolations; empty: the default
	Image     string // the system inside; empty: none is named
	Images    string // a folder of images that are unpacked already; empty: each world has its own
	Machine   string // a folder with the kernel of microvm's guests
	Engine    string // DOCKER_HOST; empty: the usual place
	Cluster   string // a folder with what setup kubernetes wrote; the agent's image has this program at its path
	Together  bool   // commands of one instance share a cloister where a case allows it
}

// Head is how a configuration of this enclosure begins. It is not said by flags:
// then a case that starts a cloister in its own way would start another one.
func (e Enclosure) Head() string {
	text := "version: 1\n"
	if e.Isolation != "" {
		text += "defaults: {isolation: " + e.Isolation + "}\n"
	}
	if e.Image != "" {
		text += fmt.Sprintf("image: %q\n", e.Image)
	}
	return text
}

// Flags are those of every run: a machine may be an emulated one, and a pod has no file of this host.
func (e Enclosure) Flags() []string {
	switch {
	case e.Machine != "":
		return []string{"--accept", "residue:microvm-emulated"}
	case e.Cluster != "": // a pod has a copy at most
		return []string{"--workspace", "scratch"}
	}
	return nil
}

// Shown are the flags by which an attempt's program is there inside.
func (e Enclosure) Shown(self string) []string {
	if e.Cluster != "" {
		return nil
	}
	return []string{"--expose", self + ":ro"}
}

// Furnish puts images and a kernel that are there already into an instance's data folder.
func (e Enclosure) Furnish(data string) error {
	own := filepath.Join(data, "cloister")
	err := os.MkdirAll(own, 0o700)
	if e.Images != "" && err == nil {
		err = os.Symlink(e.Images, filepath.Join(own, "images"))
	}
	if e.Machine != "" && err == nil {
		err = linked(e.Machine, filepath.Join(own, "microvm"))
	}
	if e.Cluster != "" && err == nil {
		err = os.CopyFS(filepath.Join(own, "kubernetes"), os.DirFS(e.Cluster))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make world: %w", err)
	}
	return nil
}

// linked makes a folder with the same files: a machine's template has hundreds of MiB, and no link is followed to it.
func linked(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(at, 0o700)
		}
		return os.Link(path, at)
	})
}

// Column is one kind of enclosure in the table of attempts.
type Column string

// The columns.
const (
	Native    Column = "native"
	WithImage Column = "image"
	User      Column = "user"
	Docker    Column = "docker"
	GVisor    Column = "gvisor"
	MicroVM   Column = "microvm"
	Pod       Column = "kubernetes"
)

// Columns are all of them. A new level is one constant, a line here and one in What, and its
// line in script/check/kinds.go, which makes what its cloisters need.
func Columns() []Column { return []Column{Native, WithImage, User, Docker, GVisor, MicroVM, Pod} }

// What says what a column's cloisters are.
func (c Column) What() string {
	return map[Column]string{
		Native:    "native, with the host's own system",
		WithImage: "native, with an image (`image:`)",
		User:      "namespaces made by root's helper, for an ordinary user alone (`--isolation user`)",
		Docker:    "containers of a Docker engine on that image (`--isolation docker`)",
		GVisor:    "a kernel of its own in the native enclosure (`--isolation gvisor`)",
		MicroVM:   "machines, emulated here, in the native enclosure (`--isolation microvm`)",
		Pod:       "pods of a Kubernetes of one node (`--isolation kubernetes`; `script/test kubernetes`)",
	}[c]
}

// By are those who start such cloisters: what root starts is never the user level.
func (c Column) By() []string {
	switch c {
	case User:
		return []string{"user"}
	case Pod: // the node is of namespaces that root made, and so is who starts pods beside it
		return []string{"root"}
	case Native, WithImage, Docker, GVisor, MicroVM:
	}
	return []string{"root", "user"}
}

// Isolations are the words of --isolation that columns are tried by.
func Isolations() []string {
	var out []string
	for _, c := range Columns() {
		if c != WithImage {
			out = append(out, string(c))
		}
	}
	return out
}

// Column is where an enclosure stands in the table.
func (e Enclosure) Column() Column {
	switch {
	case e.Isolation != "" && e.Isolation != string(Native):
		return Column(e.Isolation)
	case e.Image != "":
		return WithImage
	}
	return Native
}

// Elsewhere tells whether a case is about other columns alone.
func (c Case) Elsewhere(column Column) bool { return c.Only != nil && !slices.Contains(c.Only, column) }

// In tells whether a case is tried in a column.
func (c Case) In(column Column) bool {
	return !c.Elsewhere(column) && c.Except[column] == ""
}

// Seen is what came of the cases in each column and as whom: "root" or "user".
type Seen map[string]map[Column][]string

// What stands before the word of who tried a case that did not pass.
const (
	Failed    = "-"
	Undecided = "?"
)

// ParseSeen reads what Format wrote, and lines added to it as cases are tried: the last one counts.
func ParseSeen(text string) (Seen, error) {
	out := Seen{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || !slices.Contains(Columns(), Column(f[1])) {
			return nil, fmt.Errorf("read columns: %q is no case, column and who", line)
		}
		for as := range strings.SplitSeq(f[2], ",") {
			who := strings.TrimLeft(as, Failed+Undecided)
			switch {
			case who != "root" && who != "user":
				return nil, fmt.Errorf("read columns: %q is neither root nor user", as)
			case who == as:
				out.Add(f[0], Column(f[1]), as)
			default:
				out.Forget(f[0], Column(f[1]), who)
			}
		}
	}
	return out, nil
}

// Add notes that a case passed.
func (s Seen) Add(id string, column Column, as string) {
	if s[id] == nil {
		s[id] = map[Column][]string{}
	}
	if !slices.Contains(s[id][column], as) {
		s[id][column] = append(s[id][column], as)
		slices.Sort(s[id][column])
	}
}

// Forget takes back what was noted: the case did not pass.
func (s Seen) Forget(id string, column Column, as string) {
	if s[id] != nil {
		s[id][column] = slices.DeleteFunc(s[id][column], func(o string) bool { return o == as })
	}
}

// Format writes it as a table of tabs. Of what is no case any more, or has no
// meaning there, nothing is written.
func (s Seen) Format(cases []Case) string {
	var b strings.Builder
	b.WriteString("# Attempts that were held, with their controls: the case, the kind of enclosure, as whom.\n# Written by script/test columns.\n")
	for _, c := range cases {
		for _, column := range Columns() {
			if as := s[c.ID][column]; len(as) > 0 && c.In(column) {
				fmt.Fprintf(&b, "%s\t%s\t%s\n", c.ID, column, strings.Join(as, ","))
			}
		}
	}
	return b.String()
}
