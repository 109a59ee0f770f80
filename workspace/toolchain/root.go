package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
)

// managers are the hidden folders of a home that are toolchains as a whole.
var managers = []string{".pyenv", ".rbenv", ".nodenv", ".goenv", ".jenv", ".tfenv", ".asdf", ".volta", ".bun", ".deno",
	".nvm", ".fnm", ".sdkman", ".rye", ".juliaup", ".ghcup"}

// secretive are the folders of a home that hold keys and logins, and nothing
// that anyone runs from PATH. Nothing in them is shown, also not through a link.
var secretive = []string{".ssh", ".aws", ".azure", ".docker", ".kube", ".gnupg", ".config", ".mozilla",
	".password-store", ".gcloud", ".pki", ".thunderbird"}

// unfit tells of a root that PATH may name and that is no toolchain: the host's
// own folders, other people's homes, places where keys lie.
func unfit(root, home string) bool {
	mine := home != "" && realpath.Inside(root, home)
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/var"} {
		if realpath.Inside(root, dir) && !(mine && realpath.Inside(home, dir)) { // of services, homes lie in /var
			return true
		}
	}
	if root == "/" || root == "/home" || root == "/root" || root == "/tmp" || root == "/mnt" || root == "/media" ||
		root == "/srv" {
		return true
	}
	if !mine {
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
		if slices.Contains(private(), first) && rest == "" ||
			slices.Contains([]string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".config"}, first) {
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
