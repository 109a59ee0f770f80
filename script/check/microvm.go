package main

import (
	"bytes"
	"io"
	"path/filepath"
)

// microvm has machines booted without acceleration: one for many cases, and one for each layer
// that is left out.
func (r *runner) microvm() {
	r.check("machines", func(out io.Writer) error {
		var folders bytes.Buffer
		if err := r.run(io.MultiWriter(&folders, out), cmd{words: []string{"script/guest-kernels", filepath.Join(r.work, "kernels")}}); err != nil {
			return err
		}
		kernels := foldersIn(folders.String())
		return r.run(out, cmd{
			words: []string{"go", "test", "-count=1", "-v", "-timeout=30m", "./sandbox/microvm"},
			env:   []string{"CGO_ENABLED=0", "CLOISTER_MICROVM_KERNEL=" + kernels[0], "CLOISTER_TEST_NEEDS=qemu"},
		})
	})
}
