package microvm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/microvm/engine"
)

// engineOf reports whether a guest is to have an engine of its own.
func engineOf(s sandbox.Spec) bool { return slices.Contains(s.Accepted, ResidueEngine) }

// withEngine adds to the view what an engine needs there, and refuses where there can be none.
func withEngine(s sandbox.Spec, k installed) (sandbox.Spec, error) {
	if !engineOf(s) {
		return s, nil
	}
	lacks := func(reason, fix string) error {
		return &sandbox.Unsupported{Guarantee: "an engine of its own", Reason: "start microvm: " + reason, Fix: fix}
	}
	if !k.Engine {
		return s, lacks("the kernel that is installed has not the modules of a container engine",
			installing+" installs another")
	}
	if s.Root.Dir == "" {
		for _, name := range engine.Programs() {
			if !slices.ContainsFunc(engine.Folders(), func(dir string) bool {
				fi, err := os.Stat(filepath.Join(dir, name))
				return err == nil && fi.Mode().Perm()&0o111 != 0
			}) {
				return s, lacks("the engine inside is this machine's, and the program "+name+" is not installed",
					"apt install docker.io iptables, or an --image that has them")
			}
		}
	}
	// The folders are what is needed: the guest mounts file systems of its own there.
	for _, dir := range []sandbox.GuestPath{engine.Settings, "/run"} {
		s.Files = append(slices.Clone(s.Files),
			sandbox.File{Path: dir + "/README", Data: []byte("The engine inside has this folder.\n"), Mode: 0o444})
	}
	return s, nil
}

// engineEnv is a command's environment, which says where its engine is.
func engineEnv(s sandbox.Spec) []string {
	const name = "DOCKER_HOST="
	if !engineOf(s) || slices.ContainsFunc(s.Env, func(e string) bool { return strings.HasPrefix(e, name) }) {
		return s.Env
	}
	return append(slices.Clone(s.Env), name+"unix://"+engine.Socket)
}
