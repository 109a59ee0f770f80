package main

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
)

// microvm has machines booted without acceleration: one for many cases, one for each program
// that is killed and each layer that is left out, the product's, and one with an engine
// inside; then the driver's suite.
func (r *runner) microvm() {
	env := []string{"CGO_ENABLED=0", "CLOISTER_TEST_NEEDS=qemu"}
	if !r.check("a kernel and a database", func(out io.Writer) error {
		var folders, database bytes.Buffer
		kernels, databases := filepath.Join(r.work, "kernels"), filepath.Join(r.work, "database")
		err := errors.Join(r.run(io.MultiWriter(&folders, out), cmd{words: []string{"script/guest-kernels", kernels}}),
			r.run(&database, cmd{words: []string{"script/microvm-database", databases}}))
		env = append(env, "CLOISTER_MICROVM_KERNEL="+strings.Split(folders.String(), "\n")[0],
			"CLOISTER_MICROVM_DATABASE="+strings.TrimSpace(database.String()),
			"CLOISTER_MICROVM_COMPOSE="+filepath.Join(databases, "docker-compose"))
		return err
	}) {
		return
	}
	test := func(name, pattern string, words ...string) {
		r.check(name, func(out io.Writer) error {
			return r.run(out, cmd{env: env, words: append(strings.Fields("go test -count=1 -v -timeout=60m -run="+pattern), words...)})
		})
	}
	test("machines", "^Test(Machine.*|Refusals|Status)$", "./sandbox/microvm")
	test("raw requests to the server of files", "^TestFrames$", "./sandbox/microvm/monitor")
	test("layers left out", "^TestWithout$", "-tags=cloister_layeroff", "./sandbox/microvm")
	test("the driver's suite", "^TestConformance$", "./sandbox/microvm")
	test("the product on machines", "^Test(Product|Others|Compose)$", "./cmd/cloister/machinetest")
}
