package reaper

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Kinds are what a machine has that tests could leave behind, beside processes.
var Kinds = map[string]func() []string{
	"mounts": func() []string {
		text, _ := os.ReadFile("/proc/self/mountinfo") // proc is there, or nothing runs at all
		var out []string
		for line := range strings.Lines(string(text)) {
			out = append(out, strings.Join(strings.Fields(line)[3:5], " "))
		}
		return out
	},
	"control groups": func() []string { return Below("/sys/fs/cgroup", 9, "cloister") },
	"namespaces":     func() []string { return Below("/run/netns", 1, "") },
	"locks":          func() []string { return Below("/dev/shm", 1, "libpod_lock") }, // root's Podman makes it there, whatever its folders
}

// Below lists what lies below a folder and has a word in its name.
func Below(top string, depth int, word string) []string {
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
