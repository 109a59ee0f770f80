package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
)

// lsm has the tests of kernel/lsm run in guests whose kernels load programs for their
// security hooks, compiles its objects again, and keeps what the guests said.
func (r *runner) lsm() {
	if !r.rootOnly("the kernel's judge") || !r.machine.installQuietly("dockerd", "docker.io") {
		return
	}
	r.check("the kernel's judge", func(out io.Writer) error {
		var folders bytes.Buffer
		if err := r.run(io.MultiWriter(&folders, out), cmd{words: []string{"script/guest-kernels", filepath.Join(r.work, "kernels")}}); err != nil {
			return err
		}
		return r.run(out, cmd{
			words: []string{"go", "test", "-p=1", "-count=1", "-v", "-timeout=40m", "-run=^Test(Guest|WeakKernels|Cost|Objects.*)$", "./kernel/lsm", "./cmd/cloister/lsmtest"},
			env: []string{"CGO_ENABLED=0", "CLOISTER_LSM_KERNELS=" + strings.Join(foldersIn(folders.String()), ":"),
				"CLOISTER_LSM_REPORT=testdata", "CLOISTER_TEST_NEEDS=qemu clang docker"},
		})
	})
}

// foldersIn are the lines of a program's output that are folders; it says more beside.
func foldersIn(text string) (list []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "/") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}
