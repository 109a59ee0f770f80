package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"cloister/script/check/typecheck"
)

const (
	golangci = "v2.15.0"
	// x/vuln v1.9.0 needs a version of x/telemetry that no module proxy may have.
	govulncheck = "v1.8.0"
	h2spec      = "v2.2.1+incompatible"
)

// tool is the path of a program that go install makes, kept from run to run.
func (r *runner) tool(out io.Writer, name, pkg, version string) (string, error) {
	dir := filepath.Join(r.tools, name+"-"+version)
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	err := r.run(out, cmd{words: []string{"go", "install", pkg + "@" + version}, env: []string{"GOBIN=" + dir, "GOFLAGS="}})
	return file, err
}

func (r *runner) format() {
	r.check("gofmt", func(io.Writer) error {
		files, err := r.output("git", "ls-files", "-co", "--exclude-standard", "*.go")
		if err != nil {
			return err
		}
		bad, err := r.output(append([]string{"gofmt", "-l"}, strings.Fields(files)...)...)
		if err == nil && bad != "" {
			err = errors.New("gofmt would change:\n" + bad)
		}
		return err
	})
}

func (r *runner) vet() { r.command("go vet", "go", "vet", "./...") }

func (r *runner) tidy() { r.command("go mod tidy", "go", "mod", "tidy", "-diff") }

func (r *runner) lint() {
	r.check("golangci-lint", func(out io.Writer) error {
		tool, err := r.tool(out, "golangci-lint", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint", golangci)
		if err != nil {
			return err
		}
		return r.run(out, cmd{words: []string{tool, "run", "./..."}})
	})
}

// The database of known vulnerabilities, as govulncheck asks it.
const vulnerabilities = "https://vuln.go.dev/index/db.json"

// reachable reports whether the database can be asked: govulncheck asks only after minutes of computing.
func (r *runner) reachable() bool {
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodHead, vulnerabilities, nil)
	if err != nil {
		return false
	}
	answer, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}).Do(ask)
	return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

func (r *runner) vuln() {
	r.check("govulncheck", func(out io.Writer) error {
		if !r.reachable() {
			r.say("note  vuln: the vulnerability database cannot be reached from here\n")
			return nil
		}
		tool, err := r.tool(out, "govulncheck", "golang.org/x/vuln/cmd/govulncheck", govulncheck)
		if err != nil {
			return err
		}
		text, err := r.output(tool, "./...")
		_, werr := io.WriteString(out, text)
		return errors.Join(err, werr)
	})
}

// cross checks the types of the product for the other platforms that are released, or
// compiles it and vets its tests for them where CROSS says so. This host's own, lint has
// looked at; script/release compiles for each.
func (r *runner) cross() {
	for _, target := range []string{"linux/amd64", "linux/arm64", "darwin/arm64"} {
		system, arch, _ := strings.Cut(target, "/")
		if system == runtime.GOOS && arch == runtime.GOARCH {
			continue
		}
		if os.Getenv("CROSS") == "" {
			r.check("types for "+target, func(io.Writer) error { return r.typecheck(system, arch) })
			continue
		}
		env := []string{"GOOS=" + system, "GOARCH=" + arch}
		r.check("build "+target, func(out io.Writer) error {
			return r.run(out, cmd{words: []string{"go", "build", "-o", os.DevNull, "./..."}, env: env})
		})
		r.check("vet "+target, func(out io.Writer) error {
			return r.run(out, cmd{words: []string{"go", "vet", "./..."}, env: env})
		})
	}
}

// typecheck checks the types of the whole tree as one platform's compiler would see it.
func (r *runner) typecheck(goos, goarch string) error {
	list, err := r.outputOf(cmd{
		words: []string{"go", "list", "-deps", "-json=" + typecheck.Packages, "./..."},
		env:   []string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0"},
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, list)
	}
	return typecheck.Tree(list, goarch)
}
