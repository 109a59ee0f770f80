// Package working times what programs of a project take in an overlay workspace beside a
// live one: npm, git and Go, inside, in copies of one project, in turns.
//
// The call most readers want is [Measure].
package working

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// What programs of a project take in an overlay workspace and in a live one.
const (
	InOverlay = "cloister, overlay"
	InLive    = "cloister, live"
)

// Steps are what is timed inside, in this order.
var Steps = []struct{ Title, script string }{
	{"npm install of 5,000 files", "npm install --offline --no-audit --no-fund --ignore-scripts --loglevel=error --cache .npm-cache"},
	{"git: status, add, commit, two checkouts", `for f in src/*/f*1; do echo more >> $f; done
		git status >/dev/null && git add -A src && git commit -qm x && git checkout -q HEAD~1 && git checkout -q -`},
	{"go build of 60 packages and what they need", "mkdir bin && go build -o bin/ ./..."},
}

// Options say where, and with which program.
type Options struct {
	Dir    string // everything is made in it; the caller removes it
	Rounds int
	// In makes a command of the world that is measured, and Cloister is the program there.
	In       func(ctx context.Context, program string, args ...string) *exec.Cmd
	Cloister string
	// Add takes a figure.
	Add func(subject, contender, unit string, value float64)
}

// Measure runs the same work in copies of one project, live and overlay in turns. A
// guardian must be running.
func Measure(ctx context.Context, o Options) error {
	for _, program := range []string{"npm", "git", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	template := filepath.Join(o.Dir, "template")
	if err := write(template); err != nil {
		return fmt.Errorf("make a project: %w", err)
	}
	for _, words := range [][]string{
		{"init", "-q", "."},
		{"add", "-A", "."},
		{"-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-q", "-m", "first"},
	} {
		if out, err := o.In(ctx, "git", append([]string{"-C", template}, words...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", words[0], err, out)
		}
	}
	for n := range o.Rounds {
		for i := range 2 {
			who, kind := InOverlay, "overlay"
			if (n+i)%2 == 0 {
				who, kind = InLive, "live"
			}
			if err := o.work(ctx, filepath.Join(o.Dir, kind+strconv.Itoa(n)), kind, who); err != nil {
				return err
			}
		}
	}
	return nil
}

// work does all of it once in a new copy of the project. No copy is removed before the
// end: file systems are slow for seconds where much was removed.
func (o Options) work(ctx context.Context, project, kind, who string) error {
	if out, err := o.In(ctx, "cp", "-a", filepath.Join(o.Dir, "template"), project).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the project: %w: %s", err, out)
	}
	var script strings.Builder
	script.WriteString(`set -e
export GOCACHE=$PWD/.go-cache GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off CGO_ENABLED=0 GIT_CONFIG_COUNT=2
export GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=b GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=b@example.com
date +%s%N
`)
	for _, step := range Steps {
		script.WriteString(step.script + " >&2\ndate +%s%N\n")
	}
	cmd := o.In(ctx, o.Cloister, "run", "--workspace", kind, "--name", filepath.Base(project), "--", "sh", "-c", script.String())
	cmd.Dir = project
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("work in %s: %w: %s", kind, err, bytes.TrimSpace(errs.Bytes()))
	}
	times := strings.Fields(string(out))
	if len(times) != len(Steps)+1 {
		return fmt.Errorf("work in %s: it printed %q", kind, out)
	}
	var at []int64
	for _, t := range times {
		ns, err := strconv.ParseInt(t, 10, 64)
		if err != nil {
			return fmt.Errorf("work in %s: %w", kind, err)
		}
		at = append(at, ns)
	}
	for i, step := range Steps {
		o.Add(step.Title, who, "ms", float64(at[i+1]-at[i])/1e6)
	}
	return nil
}

// write writes a project with 100 packages of npm as files, 5,000 sources and a
// module of 60 packages.
func write(at string) error {
	files := map[string]string{".gitignore": "node_modules\n.npm-cache\n.go-cache\nbin\n", "go.mod": "module app\n\ngo 1.24\n"}
	var dependencies, imports, uses []string
	for p := range 100 {
		name := fmt.Sprintf("p%d", p)
		text, err := packed(name, 50)
		if err != nil {
			return err
		}
		files["packages/"+name+".tgz"] = text
		dependencies = append(dependencies, fmt.Sprintf("%q: \"file:packages/%s.tgz\"", name, name))
		for f := range 50 {
			files[fmt.Sprintf("src/%s/f%d", name, f)] = strings.Repeat(fmt.Sprintf("%d of %s\n", f, name), 20)
		}
	}
	for p := range 60 {
		files[fmt.Sprintf("m%d/m.go", p)] = fmt.Sprintf("package m%d\n\nimport \"strconv\"\n\n"+
			"// Text is a number.\nfunc Text(n int) string { return strconv.Itoa(n + %d) }\n", p, p)
		imports = append(imports, fmt.Sprintf("\t\"app/m%d\"", p))
		uses = append(uses, fmt.Sprintf("\tprintln(m%d.Text(1))", p))
	}
	files["package.json"] = `{"name": "work", "version": "1.0.0", "dependencies": {` + strings.Join(dependencies, ", ") + "}}\n"
	files["main.go"] = "package main\n\nimport (\n" + strings.Join(imports, "\n") + "\n)\n\nfunc main() {\n" + strings.Join(uses, "\n") + "\n}\n"
	for name, text := range files {
		to := filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packed is a package of npm.
func packed(name string, files int) (string, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	add := func(file, text string) error {
		err := t.WriteHeader(&tar.Header{Name: "package/" + file, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = t.Write([]byte(text))
		}
		return err
	}
	err := add("package.json", fmt.Sprintf("{%q: %q, %q: %q}\n", "name", name, "version", "1.0.0"))
	for f := range files - 1 {
		if err == nil {
			err = add(fmt.Sprintf("lib/d%d/f%d.js", f/10, f), strings.Repeat(fmt.Sprintf("exports.n%d = %d;\n", f, f), 100))
		}
	}
	if err != nil {
		return "", err
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return "", err
	}
	return out.String(), nil
}
