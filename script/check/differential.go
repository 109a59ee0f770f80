package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The real servers of the differential test: Debian's, and those of npm.
var (
	realServers = strings.Fields(`nginx:nginx-light apache2:apache2-bin`)
	realPython  = strings.Fields(`flask:python3-flask django:python3-django webob:python3-webob`)
	realStore   = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
	realModules = strings.Fields(`express@5.3.0 method-override@3.0.0 @modelcontextprotocol/sdk@1.32.2 zod@4.6.7`)
)

// differential compares what real servers obey with what was judged, and writes the
// report.
func (r *runner) differential() {
	modules := filepath.Join(r.work, "servers")
	ready := r.once("real servers", func(out io.Writer) error {
		for _, need := range realServers {
			program, pkg, _ := strings.Cut(need, ":")
			if _, err := exec.LookPath(program); err == nil {
				continue
			}
			if !r.root {
				return fmt.Errorf("%s is missing\nhint: as root: apt-get install --no-install-recommends %s", program, pkg)
			}
			if !r.machine.installQuietly(program, pkg) {
				return fmt.Errorf("%s is not installed", pkg)
			}
		}
		for _, need := range realPython {
			module, pkg, _ := strings.Cut(need, ":")
			if r.run(io.Discard, cmd{words: []string{"/usr/bin/python3", "-c", "import " + module}}) == nil {
				continue
			}
			if !r.root {
				return fmt.Errorf("%s is missing\nhint: as root: apt-get install --no-install-recommends %[1]s", pkg)
			}
			if err := r.machine.apt(out, pkg); err != nil {
				return err
			}
		}
		if err := r.machine.npm(out, modules, realModules, "--ignore-scripts"); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(modules, "versitygw")); err == nil {
			return nil
		}
		return r.run(out, cmd{words: []string{"go", "install", realStore}, env: []string{"GOBIN=" + modules, "CGO_ENABLED=0"}})
	})
	if !ready {
		return
	}
	rows, stores := filepath.Join(r.work, "differential.md"), filepath.Join(r.work, "stores.md")
	r.check("differential test", func(out io.Writer) error {
		return r.run(out, cmd{
			words: []string{"go", "test", "-count=1", "-tags=differential", "-run=^TestDifferential", "./egress"},
			env: []string{
				"CLOISTER_DIFFERENTIAL=" + modules, "CLOISTER_DIFFERENTIAL_REPORT=" + rows, "CLOISTER_DIFFERENTIAL_STORES=" + stores,
			},
		})
	})
	r.check("docs/differential.md", func(io.Writer) error {
		if err := writeRows("docs/differential.md", "rows", rows); err != nil {
			return err
		}
		return writeRows("docs/differential.md", "stores", stores)
	})
}

// writeRows puts the rows of the table with a name between its marks in a document.
func writeRows(doc, name, rows string) error {
	begin, end := "<!-- "+name+": script/test differential writes them -->\n", "<!-- end of "+name+" -->"
	text, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	table, err := os.ReadFile(rows)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s has no marks for its rows", doc)
	}
	return os.WriteFile(doc, []byte(head+begin+string(table)+end+tail), 0o644)
}
