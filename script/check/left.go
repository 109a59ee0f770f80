package main

import (
	"cloister/script/check/reaper"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// before notes what is there.
func (r *runner) before() {
	r.was = map[string][]string{}
	for kind, list := range reaper.Kinds {
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
				if found, err := os.FindProcess(p.PID); err == nil {
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
		out = append(out, fmt.Sprintf("process %d of %d %s: %s", p.PID, p.Parent, p.State, p.Line())+origin(p.PID))
	}
	for kind, list := range reaper.Kinds {
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

// origin tells from whose folders a process was started: a test's have its name.
func origin(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may be gone
	var out strings.Builder
	for v := range strings.SplitSeq(string(text), "\x00") {
		if strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "XDG_STATE_HOME=") {
			out.WriteString(" " + v)
		}
	}
	return out.String()
}

// descendants are the processes below this one.
func (r *runner) descendants() []reaper.Process {
	all := map[int]reaper.Process{}
	for _, p := range reaper.All() {
		all[p.PID] = p
	}
	var out []reaper.Process
	for _, p := range all {
		if p.State == "Z" || p.PID == os.Getpid() {
			continue
		}
		for q, known := p, true; known; q, known = all[q.Parent] {
			if q.Parent == os.Getpid() {
				out = append(out, p)
				break
			}
		}
	}
	return out
}
