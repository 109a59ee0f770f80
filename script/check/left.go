package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kinds are what a machine has that tests could leave behind, beside processes.
var kinds = map[string]func() []string{
	"mounts": func() []string {
		text, _ := os.ReadFile("/proc/self/mountinfo") // proc is there, or nothing runs at all
		var out []string
		for line := range strings.Lines(string(text)) {
			out = append(out, strings.Join(strings.Fields(line)[3:5], " "))
		}
		return out
	},
	"control groups": func() []string { return below("/sys/fs/cgroup", 9, "cloister") },
	"namespaces":     func() []string { return below("/run/netns", 1, "") },
	"locks":          func() []string { return below("/dev/shm", 1, "libpod_lock") }, // root's Podman makes it there, whatever its folders
}

// below lists what lies below a folder and has a word in its name.
func below(top string, depth int, word string) []string {
	var out []string
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error { // what goes meanwhile is not left
		if err != nil || path == top {
			return nil
		}
		if strings.Contains(strings.ToLower(d.Name()), word) && (d.IsDir() || word != "cloister") {
			out = append(out, path)
		}
		if d.IsDir() && strings.Count(strings.TrimPrefix(path, top), "/") >= depth {
			return fs.SkipDir
		}
		return nil
	})
	return out
}

// before notes what is there.
func (r *runner) before() {
	r.was = map[string][]string{}
	for kind, list := range kinds {
		r.was[kind] = list()
	}
}

// left fails for what stays: what the last part ended may still be on its way out.
func (r *runner) left(out io.Writer) error {
	began := time.Now()
	for {
		remains := r.remains()
		if len(remains) == 0 {
			return nil
		}
		if time.Since(began) > 20*time.Second {
			for _, p := range r.descendants() {
				if found, err := os.FindProcess(p.pid); err == nil {
					_ = found.Kill() // it is reported already
				}
			}
			_, _ = fmt.Fprintln(out, strings.Join(remains, "\n")) // a buffer
			if len(r.flaky) > 0 {
				r.say("note  left behind by a test that failed at first:\n%s\n", strings.Join(remains, "\n"))
				return nil
			}
			return fmt.Errorf("%d left behind", len(remains))
		}
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // nothing announces that the last one went
	}
}

// remains lists what is there and was not before.
func (r *runner) remains() []string {
	var out []string
	for _, p := range r.descendants() {
		out = append(out, fmt.Sprintf("process %d of %d %s: %s", p.pid, p.parent, p.state, p.line()))
	}
	for kind, list := range kinds {
		for _, thing := range list() {
			if !slices.Contains(r.was[kind], thing) && !strings.Contains(thing, r.work) {
				out = append(out, kind+": "+thing)
			}
		}
	}
	if info, err := os.Lstat("/dev/null"); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		out = append(out, "/dev/null is no device any more")
	}
	files, err := os.ReadDir(r.temp())
	if err != nil {
		out = append(out, err.Error())
	}
	for _, f := range files {
		out = append(out, "file in TMPDIR: "+f.Name())
	}
	return out
}

// descendants are the processes below this one.
func (r *runner) descendants() []process {
	all := map[int]process{}
	for _, p := range processes() {
		all[p.pid] = p
	}
	var out []process
	for _, p := range all {
		if p.state == "Z" || p.pid == os.Getpid() {
			continue
		}
		for q, known := p, true; known; q, known = all[q.parent] {
			if q.parent == os.Getpid() {
				out = append(out, p)
				break
			}
		}
	}
	return out
}
