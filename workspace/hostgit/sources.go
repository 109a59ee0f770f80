package hostgit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/host/resolve"
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
	"cloister/workspace/gitdir"
)

// Configuration is what git of the host says of where it has its configuration.
type Configuration struct {
	Files   []string       // that it reads, or would read if they were there
	Entries []gitdir.Entry // that no file has: those of the environment
}

// kept is an answer of git's with what it depends on.
type kept struct {
	Configuration

	Seen map[string]string // of each file, what the file system says of it
}

// Sources asks git for the sources of its configuration, with the person's own
// environment: where it looks depends on how it was built, on variables, and on what
// each file includes. Nothing is run by that question. An answer is kept in the data
// folder for as long as no file that it depends on changes. Where there is no git, or it
// does not answer, there is nothing that would obey a source of its own.
func Sources(ctx context.Context, host *resolve.Resolver, data string, at Folders, env []string) Configuration {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{at.Common, at.Dir}, env...), "\x00")))
	file := filepath.Join(data, "gitconfig", hex.EncodeToString(sum[:8]))
	var k kept
	if text, err := ownfile.Read(file, 4<<20); err == nil && exactjson.Unmarshal(text, &k) == nil && len(k.Seen) > 0 &&
		k.holds() {
		return k.Configuration
	}
	k = kept{Seen: map[string]string{}}
	k.Files = candidates(at, env)
	text, answered := list(ctx, host, at, env)
	if answered {
		k.parse(text)
	}
	repository := []string{filepath.Join(at.Common, "config"), filepath.Join(at.Dir, "config.worktree")}
	for _, f := range slices.Clone(k.Files) {
		read := gitdir.ReadOwn
		if slices.Contains(repository, f) {
			read = gitdir.Read
		}
		for _, e := range read(f) {
			if (e.Section == "include" || e.Section == "includeif") && e.Key == "path" && filepath.IsAbs(e.Value) {
				k.Files = append(k.Files, filepath.Clean(e.Value))
			}
		}
	}
	slices.Sort(k.Files)
	k.Files = slices.Compact(k.Files)
	for _, f := range k.Files {
		k.Seen[f] = signature(f)
	}
	if !answered {
		return k.Configuration // on a machine that is busy git may have had too little time: it is asked again
	}
	if text, err := exactjson.Marshal(k); err == nil && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		if ownfile.Write(file+".new", text) == nil {
			_ = os.Rename(file+".new", file) // what is not kept is asked for again
		}
	}
	return k.Configuration
}

// candidates are the files that git reads where they are there.
func candidates(at Folders, env []string) []string {
	value := func(name string) string {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
	out := []string{filepath.Join(at.Common, "config"), filepath.Join(at.Dir, "config.worktree"), "/etc/gitconfig",
		"/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig"}
	if home := value("HOME"); home != "" {
		out = append(out, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"))
	}
	if xdg := value("XDG_CONFIG_HOME"); xdg != "" {
		out = append(out, filepath.Join(xdg, "git/config"))
	}
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		if v := value(name); v != "" {
			out = append(out, v)
		}
	}
	return slices.DeleteFunc(out, func(f string) bool { return !filepath.IsAbs(f) })
}

// ConfigVariables are those of the environment by which git finds its configuration,
// with HOME.
func ConfigVariables(environ map[string]string) []string {
	var out []string
	for name, value := range environ {
		if name == "HOME" || name == "XDG_CONFIG_HOME" || strings.HasPrefix(name, "GIT_CONFIG") {
			out = append(out, name+"="+value)
		}
	}
	slices.Sort(out)
	return out
}

// askFor bounds git's answer, in time.
const askFor = 5 * time.Second

// list asks git. Its working folder is the root of all: what it finds is by the folders
// that it is given.
func list(ctx context.Context, host *resolve.Resolver, at Folders, env []string) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	program, err := host.Program("git", resolve.System)
	if err != nil {
		return "", false
	}
	c := exec.CommandContext(ctx, program.Path, "--no-pager", "--git-dir="+at.Dir, "config", "--list", "--includes",
		"--show-origin", "-z")
	c.Dir, c.Env = "/", append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0"}, env...)
	out, err := c.Output()
	return string(out), err == nil
}

// parse reads origins and settings, each ended by a NUL.
func (k *kept) parse(text string) {
	parts := strings.Split(text, "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		if file, ok := strings.CutPrefix(parts[i], "file:"); ok {
			if filepath.IsAbs(file) {
				k.Files = append(k.Files, filepath.Clean(file))
			}
			continue
		}
		name, value, _ := strings.Cut(parts[i+1], "\n")
		section, rest, _ := strings.Cut(name, ".")
		e := gitdir.Entry{Section: strings.ToLower(section), Key: strings.ToLower(rest), Value: value}
		if at := strings.LastIndexByte(rest, '.'); at >= 0 {
			e.Subsection, e.Key = rest[:at], strings.ToLower(rest[at+1:])
		}
		if e.Section != "http" && e.Section != "credential" { // those hold credentials, and no path that git runs is missed
			k.Entries = append(k.Entries, e)
		}
	}
}

// holds reports whether all that an answer depends on is as it was.
func (k *kept) holds() bool {
	for f, was := range k.Seen {
		if signature(f) != was {
			return false
		}
	}
	return true
}
