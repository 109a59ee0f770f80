package hostrules

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"cloister/hostexec"
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

// risky says why an automatic approval does not cover a command; "" where
// nothing speaks against it.
func risky(c *hostexec.Command) string {
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
func never(c *hostexec.Command) string {
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
