package refuse

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"cloister/sandbox"
	"cloister/sandbox/docker/inside"
)

// Binds refuses folders that an engine cannot be asked for: its JSON would make another
// name of theirs.
func Binds(binds []sandbox.Bind) error {
	for _, b := range binds {
		paths := []string{string(b.Source), string(b.Target)}
		if b.Upper != nil {
			paths = append(paths, string(b.Upper.Store))
		}
		for _, path := range paths {
			if !utf8.ValidString(path) {
				return &sandbox.Unsupported{
					Guarantee: "mount view",
					Reason:    fmt.Sprintf("start docker: show %q: the name is no UTF-8, and an engine knows no other", path),
					Fix:       "rename the folder, or use --isolation native",
				}
			}
		}
	}
	return nil
}

// IDs refuses an engine whose users are other users of this machine.
func IDs(idMap string) error {
	fields := strings.Fields(idMap)
	own, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	if len(fields) == 3 && strings.Join(fields, " ") == strings.Join(strings.Fields(string(own)), " ") {
		return nil
	}
	return Rootless()
}

// Spaces refuses an engine that gives a container this machine's network, or
// anything else of it. Podman gives no control group namespace where there are control
// groups of version 1: their names are seen inside, and nothing of them can be reached.
func Spaces(theirs map[string]string, podman, unified bool) error {
	own, err := inside.OwnNamespaces()
	if err != nil {
		return err
	}
	for name, at := range own {
		if theirs[name] == "" || theirs[name] == at && (name != "cgroup" || !podman || unified) {
			return Given(fmt.Sprintf("the container has this machine's own %s namespace", name))
		}
	}
	return nil
}

// Given refuses an engine that did not do what it was told.
func Given(lacks string) error {
	if lacks == "" {
		return nil
	}
	return &sandbox.Unsupported{
		Guarantee: "engine", Reason: "the engine did not do what it was told: " + lacks,
		Fix: "use Docker Engine 20.10 or newer without a proxy that changes what it is asked, or --isolation native",
	}
}
