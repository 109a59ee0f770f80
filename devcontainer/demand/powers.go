package demand

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"cloister/agent"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/metadata"
)

func privileged(j *judge, m jsonc.Member) any {
	if m.Value.Bool {
		j.of(m, Refused, "it would have every power over this machine", "")
		return nil
	}
	j.of(m, Honoured, "no cloister is", "")
	return false
}

func capAdd(j *judge, m jsonc.Member) any {
	for n, v := range m.Value.Items {
		j.item(indexed(m.Name, n), v, Refused, "nothing inside has a capability of the kernel's", "")
	}
	return []any{}
}

func securityOpt(j *judge, m jsonc.Member) any {
	kept := []any{}
	for n, v := range m.Value.Items {
		switch v.Text {
		case "no-new-privileges", "no-new-privileges:true", "no-new-privileges=true":
			j.item(indexed(m.Name, n), v, Honoured, "every cloister has it", "")
			kept = append(kept, v.Text)
		default:
			j.item(indexed(m.Name, n), v, Refused, ownFilter, "")
		}
	}
	return kept
}

// mounts keeps volumes, and folders of the project. Everything else of the host is
// refused: the person alone shows it.
func mounts(j *judge, m jsonc.Member) any {
	kept := []any{}
	for n, v := range m.Value.Items {
		key := indexed(m.Name, n)
		if v.Kind != jsonc.String && v.Kind != jsonc.Object {
			j.item(key, v, Refused, "a mount is a text or an object", "")
			continue
		}
		if o, reason, hint := j.mount(metadata.ReadMount(v.Any())); true {
			j.item(key, v, o, reason, hint)
			if o != Refused {
				kept = append(kept, v.Any())
			}
		}
	}
	return kept
}

// mountKeys are what a mount may say; another key could mean what no rule looks at.
var mountKeys = []string{"type", "source", "target", "readonly", "ro", "consistency", "external"}

func (j *judge) mount(f map[string]string) (Outcome, string, string) {
	for key := range f {
		if !slices.Contains(mountKeys, key) {
			return Refused, fmt.Sprintf("a mount's option %q is not known", key), ""
		}
	}
	source, target := f["source"], f["target"]
	if !path.IsAbs(target) || path.Clean(target) != strings.TrimSuffix(target, "/") || strings.Contains(target, "${") {
		return Refused, "its target is no absolute path", ""
	}
	if why := j.covers(target); why != "" {
		return Refused, why, ""
	}
	switch f["type"] {
	case "volume":
		if source == "" {
			return Refused, "a volume without a name cannot be kept", "name it: source=NAME"
		}
		if !volumeName(source) {
			return Refused, "a volume's name is letters, digits, _, . and -", ""
		}
		return Changed, "a folder that is kept for this project alone, by this name", ""
	case "bind", "":
		return j.bind(source, target)
	case "tmpfs":
		return Changed, "/tmp and the home are writable already; nothing is mounted there", ""
	}
	return Refused, fmt.Sprintf("a mount of type %q is none that a cloister has", f["type"]), ""
}

// covers says why nothing of a devcontainer's is put at a place.
func (j *judge) covers(target string) string {
	for _, own := range []string{"/proc", "/sys", "/dev", "/run", "/.cloister", "/etc", "/var/run"} {
		if below(target, own) {
			return own + " inside is the cloister's own"
		}
	}
	if target == "/" || j.Project != "" && (below(j.Project, target) || below(target, j.Project)) {
		return "it would lie over the project, whose protected paths are seen there"
	}
	if j.Home != "" && target == path.Clean(j.Home) {
		return "the home inside is the cloister's own"
	}
	return ""
}

func volumeName(s string) bool {
	return s != "" && s[0] != '.' && s[0] != '-' && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-')
	})
}

// bind judges a folder of the host.
func (j *judge) bind(source, target string) (Outcome, string, string) {
	if strings.Contains(source, "${") || !path.IsAbs(source) {
		return Refused, "its source is no absolute path of this machine", ""
	}
	clean := path.Clean(source)
	if what := j.secret(clean); what != "" {
		return Refused, what + ", which no cloister sees", ""
	}
	if j.Project != "" && clean == source && below(clean, j.Project) {
		return Changed, "the project is seen at its own path already; " + target + " leads there", ""
	}
	return Refused, "a folder of this machine outside the project is shown by a person alone",
		"show it: --expose " + clean + ":ro"
}

// credentials are what in a home speaks for its owner, or decides what runs as them, with
// what agents keep there.
var credentials = sync.OnceValue(func() []string { return append(agent.AllKept(), credentialsOfOthers...) })

var credentialsOfOthers = []string{
	".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
	".gitconfig",
	".config", ".local", ".password-store", ".pki", ".mozilla", ".thunderbird",
	".cargo/credentials", ".cargo/credentials.toml", ".terraform.d", ".m2", ".gradle", ".subversion", ".bash_history",
	".zsh_history", ".bashrc", ".profile", ".zshrc", ".cache", ".vault-token", ".oci", ".ngrok2", ".databrickscfg",
	".snowflake",
}

// secret says what a path of the host is that no cloister may see; empty where it is
// none.
func (j *judge) secret(p string) string {
	base := path.Base(p)
	if strings.HasSuffix(base, ".sock") || strings.HasSuffix(base, ".socket") || below(p, "/run") || below(p, "/var/run") {
		if strings.Contains(base, "docker") || strings.Contains(base, "containerd") || strings.Contains(base, "podman") ||
			strings.Contains(base, "crio") {
			return "it is a container engine's socket, which is this machine's root"
		}
		return "it is a socket of this machine"
	}
	if p == "/" {
		return "it is all of this machine"
	}
	for _, dir := range []string{"/etc", "/proc", "/sys", "/dev", "/boot", "/root", "/var", "/home", "/Users",
		"/lib/modules", "/usr", "/lib", "/bin", "/sbin"} {
		if p == dir || dir != "/home" && dir != "/Users" && below(p, dir) && !below(j.Home, dir) && !below(j.Project, dir) {
			return "it is a system folder of this machine"
		}
	}
	if j.Home == "" {
		return ""
	}
	if below(j.Home, p) {
		return "it is the person's home"
	}
	for _, c := range credentials() {
		if at := path.Join(j.Home, c); below(p, at) || below(at, p) && p != j.Home {
			return "it holds a person's credentials or settings"
		}
	}
	return ""
}

// workspaceMount is where the reference would mount the project.
func workspaceMount(j *judge, m jsonc.Member) any {
	f := metadata.ReadMount(m.Value.Text)
	source := path.Clean(f["source"])
	switch {
	case m.Value.Text == "":
		j.of(m, Changed, "the project is seen at its own path, as ever", "")
		return ""
	case f["type"] != "bind" && f["type"] != "" || f["source"] == "" || source != path.Clean(j.Project) && !below(source,
		j.Project):
		j.of(m, Refused, "the project is what is seen, and nothing else of this machine", "")
		return nil
	}
	j.of(m, Changed, "the project is seen at its own path; the folder that is named leads there", "")
	return m.Value.Text
}

func workspaceFolder(j *judge, m jsonc.Member) any {
	p := m.Value.Text
	if p != "/" && (!path.IsAbs(p) || path.Clean(p) != strings.TrimSuffix(p, "/") || strings.Contains(p, "${")) {
		j.of(m, Refused, "it is no absolute path", "")
		return nil
	}
	if j.Project != "" && below(p, j.Project) {
		j.of(m, Honoured, "where the command begins", "")
		return p
	}
	if p == "/" || strings.Count(p, "/") == 1 && slices.Contains(rootFolders, p) || j.covers(p) != "" {
		j.of(m, Refused, "a folder of the system inside is not the project", "")
		return nil
	}
	j.of(m, Changed, "the project is seen at its own path; this one leads there", "")
	return p
}

// rootFolders are those of a system, of which none is where a project lies.
var rootFolders = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt", "/opt", "/proc",
	"/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/work", "/refs",
}

func user(j *judge, m jsonc.Member) any {
	if m.Value.Text == "root" || m.Value.Text == "0" || strings.HasPrefix(m.Value.Text, "0:") ||
		strings.HasPrefix(m.Value.Text, "root:") {
		j.of(m, Refused, "nothing inside is root; what needs it belongs in the Dockerfile or a feature", "")
		return nil
	}
	j.of(m, Changed, "the command has this machine's user's number, so that the project's files stay theirs", "")
	return m.Value.Text
}
