// Package xdg says where one instance of Cloister keeps its files.
//
// It promises that two different sets of XDG folders share nothing: that is
// how tests run beside each other and beside a person's own guardian. Every
// path it returns is absolute and clean. It reads no environment of its own,
// and except for [Private] it touches no disk. Most readers want [Resolve].
package xdg

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Dirs are the four folders of one instance. None need exist yet.
type Dirs struct {
	Config  string // config.yaml, policy/*.cedar
	State   string // audit/, logs/
	Data    string // homes of the agents
	Runtime string // guardian.sock
}

const app = "cloister"

// maxSocketDir is how long Runtime may be: sun_path holds 108 bytes with its
// NUL (unix(7); 104 on darwin), and the socket's own name takes some of them.
const maxSocketDir = 104 - len("/guardian.sock") - 1

// Resolve applies the XDG base directory specification: a variable that is
// unset, empty or not absolute counts as unset. home may be empty where every
// variable is set. Without XDG_RUNTIME_DIR the sockets go to a private folder
// under tmp (TMPDIR is not consulted: it differs between logins, and then two
// shells would run two guardians) that is named after the user and, so that
// different instances stay apart, after the state folder where that was moved;
// so do they where XDG_RUNTIME_DIR is too long for a socket.
func Resolve(getenv func(string) string, uid int, home string) (Dirs, error) {
	base := func(variable, below string) (string, error) {
		if v := getenv(variable); filepath.IsAbs(v) {
			return filepath.Join(v, app), nil
		}
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("find %s: neither %s nor HOME is an absolute path", below, variable)
		}
		return filepath.Join(home, below, app), nil
	}
	var d Dirs
	var err error
	if d.Config, err = base("XDG_CONFIG_HOME", ".config"); err != nil {
		return Dirs{}, err
	}
	if d.State, err = base("XDG_STATE_HOME", ".local/state"); err != nil {
		return Dirs{}, err
	}
	if d.Data, err = base("XDG_DATA_HOME", ".local/share"); err != nil {
		return Dirs{}, err
	}
	if v := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(v) {
		d.Runtime = filepath.Join(v, app)
	} else {
		d.Runtime = fallbackRuntime(getenv("XDG_STATE_HOME"), uid)
	}
	for _, dir := range []string{d.Config, d.State, d.Data, d.Runtime} {
		if strings.ContainsAny(dir, "\x00\n") {
			return Dirs{}, fmt.Errorf("find the folders: %q holds a line break", dir)
		}
	}
	if len(d.Runtime) > maxSocketDir {
		d.Runtime = privateRuntime(d.Runtime, uid)
	}
	return d, nil
}

func fallbackRuntime(stateHome string, uid int) string {
	if filepath.IsAbs(stateHome) {
		return privateRuntime(filepath.Clean(stateHome), uid)
	}
	return privateRuntime("", uid)
}

// privateRuntime is a folder with a short name for the instance that another
// folder stands for.
func privateRuntime(of string, uid int) string {
	name := app + "-" + strconv.Itoa(uid)
	if of != "" {
		name += "-" + strconv.FormatUint(fnv64(of), 36)
	}
	return filepath.Join("/tmp", name)
}

// fnv64 is FNV-1a: it keeps instances apart, it guards nothing. Whoever owns
// the folder is checked by Private.
func fnv64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
