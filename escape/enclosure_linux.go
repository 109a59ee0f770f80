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
	Isolation string // native, gvisor, microvm or docker; empty: the default
	Image     string // the system inside; empty: none is named
	Images    string // a folder of images that are unpacked already; empty: each world has its own
	Machine   string // a folder with the kernel of microvm's guests
	Engine    string // DOCKER_HOST; empty: the usual place
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

// Flags are those of every run: a machine may be an emulated one.
func (e Enclosure) Flags() []string {
	if e.Machine == "" {
		return nil
	}
	return []string{"--accept", "residue:microvm-emulated"}
}

// Furnish puts images and a kernel that are there already into an instance's data folder, the kernel as a copy.
func (e Enclosure) Furnish(data string) error {
	own := filepath.Join(data, "cloister")
	err := os.MkdirAll(own, 0o700)
	if e.Images != "" && err == nil {
		err = os.Symlink(e.Images, filepath.Join(own, "images"))
	}
	if e.Machine != "" && err == nil {
		err = os.CopyFS(filepath.Join(own, "microvm"), os.DirFS(e.Machine))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make world: %w", err)
	}
	return nil
}

// Column is one kind of enclosure in the table of attempts.
type Column string

// The columns.
const (
	Native    Column = "native"
	WithImage Column = "image"
	Docker    Column = "docker"
	MicroVM   Column = "microvm"
)

// Columns are all of them.
func Columns() []Column { return []Column{Native, WithImage, Docker, MicroVM} }

// Column is where an enclosure stands in the table.
func (e Enclosure) Column() Column {
	switch {
	case e.Isolation == "docker", e.Isolation == "microvm":
		return Column(e.Isolation)
	case e.Image != "":
		return WithImage
	}
	return Native
}

// In tells whether a case is tried in a column.
func (c Case) In(column Column) bool {
	return (c.Only == "" || c.Only == column) && c.Except[column] == ""
}

// Seen is what came of the cases in each column and as whom: "root" or "user".
type Seen map[string]map[Column][]string

// ParseSeen reads what Format wrote.
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
			if as != "root" && as != "user" {
				return nil, fmt.Errorf("read columns: %q is neither root nor user", as)
			}
			out.Add(f[0], Column(f[1]), as)
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

// text is a cell of the table: held, by whom alone, or why it is not tried.
func (s Seen) text(c Case, column Column) string {
	switch as := s[c.ID][column]; {
	case c.Only != "" && c.Only != column:
		return "—"
	case c.Except[column] != "":
		return "— " + c.Except[column]
	case len(as) == 2:
		return "held"
	case len(as) == 1:
		return "held (as " + as[0] + ")"
	}
	return "not yet"
}
