package hostexec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// shells are programs that run what they are given, whatever a rule thought of
// their arguments: they are never approved without a person.
var shells = []string{
	"sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "env", "xargs", "sudo", "su", "doas", "nice", "nohup",
	"timeout", "time", "setsid", "stdbuf", "watch", "script", "ssh", "eval", "exec", "chroot", "unshare", "nsenter",
	"parallel", "entr", "strace", "gdb", "expect", "tmux", "screen", "at", "batch", "crontab", "systemd-run",
	"flatpak-spawn",
}

// escapes are arguments by which a known program runs or writes something else
// than its sub-command says: a rule that allows the program by a wide pattern
// did not mean them. An entry that ends in * holds for every argument that
// begins so. The list is no wall (typed rules are); it narrows what a wide
// pattern does by mistake.
func escapes() map[string][]string {
	return map[string][]string{
		"go": {"-exec*", "--exec*", "-toolexec*", "--toolexec*", "-vettool*", "-modfile*", "-overlay*", "-o", "-o=*",
			"generate", "run", "-C*", "tool"},
		"rg":   {"--pre*", "--hostname-bin*", "--search-zip", "-z"},
		"find": {"-exec*", "-ok*", "-delete", "-fprint*", "-fls*"},
		"fd":   {"-x*", "--exec*", "-X*"},
		"tar": {"--to-command*", "--checkpoint-action*", "-I*", "--use-compress-program*", "--rsh-command*", "-F*",
			"--info-script*", "--new-volume-script*", "--absolute-names", "-P", "-C*", "--directory*"},
		"npm": {"exec", "x", "run*", "--prefix*", "--script-shell*", "--node-options*", "--globalconfig*",
			"--userconfig*", "config", "set", "-g", "--global", "publish", "init", "create", "explore"},
		"npx":     {"*"},
		"pnpm":    {"exec", "dlx", "run*", "-C*", "--dir*", "--config*"},
		"yarn":    {"exec", "dlx", "run*", "--cwd*"},
		"make":    {"-f*", "--file*", "--makefile*", "-C*", "--directory*", "--eval*", "-I*", "SHELL=*", "*=*"},
		"cargo":   {"run", "--config*", "-Z*", "--manifest-path*", "install", "-C*"},
		"pip":     {"--index-url*", "-i", "--extra-index-url*", "-r*", "--target*", "-t*", "--prefix*", "--root*", "config"},
		"python":  {"*"},
		"python3": {"*"},
		"node":    {"*"},
		"perl":    {"*"},
		"ruby":    {"*"},
		"awk":     {"*"},
		"gawk":    {"*"},
		"sed":     {"*"},
		"sort":    {"-o*", "--output*", "--compress-program*", "-T*"},
		"curl": {"-o*", "-O*", "--output*", "-K*", "--config*", "-T*", "--upload-file*", "-d*", "--data*", "-F*",
			"--form*", "--unix-socket*", "--abstract-unix-socket*", "-x*", "--proxy*", "-D*", "-c*", "--libcurl*"},
		"wget": {"*"},
		"docker": {"run", "exec", "build", "buildx", "cp", "-v*", "--volume*", "--mount*", "--privileged", "-H*", "--host*",
			"--context*", "--config*"},
		"gh":    {"api", "alias", "extension", "config", "codespace", "secret", "ssh-key", "gpg-key", "auth"},
		"tee":   {"*"},
		"dd":    {"*"},
		"vim":   {"*"},
		"vi":    {"*"},
		"less":  {"*"},
		"man":   {"-P*", "--pager*", "-H*", "--html*"},
		"zip":   {"-T*", "-TT*", "--unzip-command*"},
		"rsync": {"-e*", "--rsh*", "--rsync-path*"},
		"scp":   {"*"},
	}
}

// callsGit reports whether a program runs git to learn which repository it is for. That
// git would obey what the cloister writes: it finds none, and the repository has to
// be named (gh -R OWNER/NAME).
func callsGit(program string) bool {
	return slices.Contains([]string{"gh", "hub", "glab", "tea"}, filepath.Base(program))
}

// looksFor are files of the project that a known program obeys without an argument
// that names them. The list is no wall: what else such a program reads is its own.
func looksFor(program string) []string {
	switch strings.TrimRight(filepath.Base(program), "0123456789.") {
	case "make", "gmake":
		return []string{"GNUmakefile", "makefile", "Makefile"}
	case "npm", "npx", "yarn", "pnpm", "corepack", "bun":
		return []string{"package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", "package-lock.json", "npm-shrinkwrap.json",
			"yarn.lock", "pnpm-lock.yaml"}
	case "cargo":
		return []string{"Cargo.toml", "Cargo.lock", "build.rs", ".cargo/config.toml", ".cargo/config"}
	case "go":
		return []string{"go.mod", "go.work"}
	case "docker", "docker-compose", "podman":
		return []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Dockerfile"}
	case "just":
		return []string{"justfile", "Justfile"}
	case "rake", "bundle":
		return []string{"Rakefile", "Gemfile", "Gemfile.lock"}
	case "composer":
		return []string{"composer.json", "composer.lock"}
	case "pytest", "tox", "pip", "poetry", "uv":
		return []string{"pyproject.toml", "setup.py", "setup.cfg", "conftest.py", "tox.ini"}
	case "mvn", "gradle":
		return []string{"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}
	}
	return nil
}

// risky says why an automatic approval does not cover a command; "" where
// nothing speaks against it.
func risky(c *Command) string {
	known := escapes()
	for _, name := range []string{filepath.Base(c.Argv[0]), filepath.Base(c.Real)} {
		if slices.Contains(shells, name) {
			return name + " runs whatever it is told"
		}
		for i, a := range c.Argv[1:] {
			for _, e := range known[name] {
				begin, wide := strings.CutSuffix(e, "*")
				if a == e || wide && strings.HasPrefix(a, begin) {
					return fmt.Sprintf("argument %d can make %s run or write something else", i+1, name)
				}
			}
		}
	}
	return ""
}

// never says why no rule and no person can let a command run.
func never(c *Command) string {
	for _, name := range []string{filepath.Base(c.Argv[0]), filepath.Base(c.Real)} {
		switch name {
		case "git", "git-shell", "git-remote-ext", "git-upload-pack", "git-receive-pack":
			return "git on the host would obey the configuration of a repository that the cloister writes"
		case "cloister":
			return "cloister is the person's: nothing inside a cloister can use it on the host"
		}
	}
	return ""
}
