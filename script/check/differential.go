package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cloister/script/check/rows"
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
	found, stores := filepath.Join(r.work, "differential.md"), filepath.Join(r.work, "stores.md")
	r.check("differential test", func(out io.Writer) error {
		return r.run(out, cmd{
			words: []string{"go", "test", "-count=1", "-tags=differential", "-run=^TestDifferential", "./egress"},
			env: []string{
				"CLOISTER_DIFFERENTIAL=" + modules, "CLOISTER_DIFFERENTIAL_REPORT=" + found, "CLOISTER_DIFFERENTIAL_STORES=" + stores,
			},
		})
	})
	r.check("docs/differential.md", func(io.Writer) error {
		if err := rows.Write("docs/differential.md", "rows", found); err != nil {
			return err
		}
		return rows.Write("docs/differential.md", "stores", stores)
	})
}
