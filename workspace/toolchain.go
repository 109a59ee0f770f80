package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
)

// systemRoots are shown by the driver; a folder of PATH in one needs no bind.
var systemRoots = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"}

// private are folders of a home that hold credentials. None is ever shown
// whole, whatever PATH says.
var private = []string{
	".ssh", ".aws", ".azure", ".docker", ".kube", ".gnupg", ".config", ".mozilla", ".password-store", ".claude",
	".codex", ".gemini", ".local", ".cargo", ".cache", ".gcloud", ".gem", ".m2",
}

// credentials are file names that are hidden in a toolchain's root.
var credentials = []string{
	"credentials", "credentials.toml", "credentials.json", ".credentials.json", "config.json", ".npmrc", ".netrc", ".pypirc",
	"auth.json", "token", "hosts.yml", ".git-credentials", "settings.xml", "config.yml", "config.yaml", "config.toml", "wasmer.toml",
}

// maxToolchains bounds the binds that PATH can ask for.
const maxToolchains = 64

// toolchain is a host folder, or a single program, that is shown read-only at
// its own path.
type toolchain struct {
	root string
	file bool
	hide []string // credential files in it
}

// toolchains finds the roots of the programs on PATH outside the system's
// folders. It gives them and the folders of PATH that will exist inside. A root
// never holds the home, the project or Cloister's state.
func toolchains(path, home string, keepOut []string, project string) (roots []toolchain, dirs []string) {
	var found []string
	add := func(root string) bool {
		if slices.Contains(found, root) {
			return true
		}
		if unfit(root, home) {
			return false
		}
		if len(found) >= maxToolchains {
			return false
		}
		for _, k := range append([]string{home, project}, keepOut...) {
			if k != "" && (realpath.Inside(k, root) || k != home && k != project && realpath.Inside(root, k)) {
				return false
			}
		}
		found = append(found, root)
		return true
	}
	shown := func(p string) bool {
		return realpath.Inside(p, project) || slices.ContainsFunc(systemRoots, func(r string) bool { return realpath.Inside(p, r) }) ||
			slices.ContainsFunc(found, func(r string) bool { return realpath.Inside(p, r) })
	}
	var follow func(dir string, depth int)
	follow = func(dir string, depth int) {
		if depth > 3 {
			return
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 2000 {
			return
		}
		for _, e := range entries {
			if e.Type()&os.ModeSymlink == 0 {
				continue
			}
			target, err := realpath.Of(filepath.Join(dir, e.Name()))
			if err != nil || shown(target) || home == "" || !realpath.Inside(target, home) {
				continue
			}
			next := filepath.Dir(target)
			root := rootOf(next, home)
			if root == next {
				root = target // no installation: the one file, not its neighbours
			}
			if add(root) && root != target {
				follow(next, depth+1)
			}
		}
	}
	seen := map[string]bool{}
	for dir := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(dir) || seen[dir] {
			continue
		}
		seen[dir] = true
		real, err := realpath.Of(dir)
		if err != nil {
			continue
		}
		if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
			continue
		}
		if !shown(real) {
			if !add(rootOf(real, home)) {
				continue
			}
			follow(real, 0)
		}
		if real != dir && !shown(dir) {
			dir = real
		}
		dirs = append(dirs, dir)
	}
	if home != "" && slices.ContainsFunc(found, func(r string) bool { return r == filepath.Join(home, ".cargo/bin") }) {
		if rustup, err := realpath.Of(filepath.Join(home, ".rustup")); err == nil {
			add(rustup)
		}
	}
	// A root below another needs no bind of its own.
	slices.Sort(found)
	for _, root := range found {
		if len(roots) > 0 && realpath.Inside(root, roots[len(roots)-1].root) {
			continue
		}
		fi, err := os.Stat(root)
		if err != nil {
			continue // gone since it was found
		}
		roots = append(roots, toolchain{root: root, file: !fi.IsDir(), hide: secretsIn(root)})
	}
	return roots, dirs
}

// managers are the hidden folders of a home that are toolchains as a whole.
var managers = []string{".pyenv", ".rbenv", ".nodenv", ".goenv", ".jenv", ".tfenv", ".asdf", ".volta", ".bun", ".deno", ".nvm", ".fnm", ".sdkman", ".rye", ".juliaup", ".ghcup"}

// secretive are the folders of a home that hold keys and logins, and nothing
// that anybody runs from PATH. Nothing in them is shown, also not through a link.
var secretive = []string{".ssh", ".aws", ".azure", ".docker", ".kube", ".gnupg", ".config", ".mozilla", ".password-store", ".gcloud", ".pki", ".thunderbird"}

// unfit tells of a root that PATH may name and that is no toolchain: the host's
// own folders, other people's homes, places where keys lie.
func unfit(root, home string) bool {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/var"} {
		if realpath.Inside(root, dir) {
			return true
		}
	}
	if root == "/" || root == "/home" || root == "/root" || root == "/tmp" || root == "/mnt" || root == "/media" || root == "/srv" {
		return true
	}
	if home == "" || !realpath.Inside(root, home) {
		return false
	}
	for _, dir := range secretive {
		if realpath.Inside(root, filepath.Join(home, dir)) {
			return true
		}
	}
	return false
}

// rootOf is the root of the installation that a folder of programs belongs to:
// its prefix where that is clearly one, else the folder alone.
func rootOf(dir, home string) string {
	prefix := filepath.Dir(dir)
	switch filepath.Base(dir) {
	case "bin", "sbin", "shims", "condabin":
	default:
		return dir
	}
	if prefix == "/" || prefix == home || home != "" && realpath.Inside(home, prefix) {
		return dir
	}
	if home != "" && realpath.Inside(prefix, home) {
		first, rest, _ := strings.Cut(strings.TrimPrefix(prefix, home+"/"), "/")
		if slices.Contains(private, first) && rest == "" || slices.Contains([]string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".config"}, first) {
			return dir
		}
		// Deeper than the top of a hidden folder lies an installation; at the
		// top, beside programs, also logins lie (~/.fly/config.yml), so only
		// those that are known to be toolchains are shown whole.
		if strings.HasPrefix(first, ".") && (rest != "" || slices.Contains(managers, first)) {
			return prefix
		}
	}
	if _, err := os.Lstat(filepath.Join(prefix, ".git")); err == nil {
		return dir // a checkout, not an installation
	}
	if _, err := os.Stat(filepath.Join(prefix, "pkg/mod")); err == nil {
		return dir // a GOPATH: its module cache is no toolchain
	}
	for _, part := range []string{"lib", "lib64", "libexec", "share", "pkg"} {
		if fi, err := os.Stat(filepath.Join(prefix, part)); err == nil && fi.IsDir() {
			return prefix
		}
	}
	return dir
}

// secretsIn lists credential files at the top of a root. Hardly any is there: one
// look at the folder's names saves one for each.
func secretsIn(root string) []string {
	var out []string
	dir, err := os.Open(root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range credentials {
		if err == nil && !slices.Contains(names, name) {
			continue
		}
		if fi, err := os.Lstat(filepath.Join(root, name)); err == nil && fi.Mode().IsRegular() {
			out = append(out, filepath.Join(root, name))
		}
	}
	return out
}
