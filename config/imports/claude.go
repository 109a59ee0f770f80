package imports

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// claude takes Claude Code's settings: its sandbox, and what its permissions say of
// files and destinations. Whatever else they say is the agent's own.
func (d *draft) claude(keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, _ := keys[key].(map[string]any)
		switch key {
		case "sandbox":
			d.claudeSandbox(value)
		case "permissions":
			d.claudePermissions(value)
		default:
			d.tell(key, None, "it is Claude Code's own: put it into ~/.claude/settings.json of the private home")
		}
	}
}

func (d *draft) claudeSandbox(keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := "sandbox." + key
		switch key {
		case "network", "filesystem", "credentials":
			d.srt("sandbox.", map[string]any{key: keys[key]})
		case "enabled", "autoAllowBashIfSandboxed", "failIfUnavailable":
			d.tell(at, Taken, "every program is in the cloister, always")
		case "allowUnsandboxedCommands":
			d.tell(at, None, "what has to run on the host asks: hostexec")
		case "excludedCommands":
			for _, command := range texts(keys[key]) {
				// docker, docker * and docker:* say the same there.
				plain := strings.TrimRight(strings.TrimSuffix(command, "*"), " :")
				pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(plain), `\*`, ".*") + "( .*)?$"
				d.manual = append(d.manual, pattern)
				d.tell(at+" "+command, Changed, "hostexec.manual_approve %s: inside it is hostexec %s, and asks", pattern, command)
			}
			d.empty(at, keys[key])
		default:
			d.tell(at, None, "nothing is made of it here")
		}
	}
}

// tool is a rule of Claude Code's permissions: Tool(what).
var tool = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\w+)\((.*)\)$`) })

func (d *draft) claudePermissions(keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		list := texts(keys[key])
		if key == "additionalDirectories" {
			for _, path := range list {
				d.exposed("permissions."+key+" "+path, path, ":rw")
			}
			continue
		}
		if len(list) == 0 {
			d.tell("permissions."+key, None, "Claude Code asks nothing inside: the cloister is the boundary")
		}
		for _, text := range list {
			d.claudeRule(key, text)
		}
	}
}

func (d *draft) claudeRule(list, text string) {
	at := "permissions." + list + " " + text
	m := tool().FindStringSubmatch(text)
	if m == nil {
		d.tell(at, None, "Claude Code asks nothing inside: the cloister is the boundary")
		return
	}
	what := strings.TrimPrefix(m[2], "./")
	domain, fetch := strings.CutPrefix(m[2], "domain:")
	switch {
	case m[1] == "WebFetch" && fetch && (list == "allow" || list == "deny" || list == "ask"):
		r, err := srtRule(domain)
		if err != nil {
			d.tell(at, None, "%v", err)
			return
		}
		to := map[string]*[]rule{"allow": &d.allow, "deny": &d.deny, "ask": &d.ask}[list]
		*to = append(*to, r)
		d.tell(at, Changed, "%s %s: for every program, ports 443 and 80", list, r)
	case m[1] == "Read" && list == "deny" && filepath.IsLocal(what) && !strings.HasPrefix(what, "~"):
		d.hide = append(d.hide, what)
		d.tell(at, Taken, "filesystem.hide, for every program")
	case (m[1] == "Edit" || m[1] == "Write") && list == "deny" && filepath.IsLocal(what) &&
		!strings.ContainsAny(what, "~*?["):
		d.protect = append(d.protect, what)
		d.tell(at, Taken, "filesystem.protect, for every program")
	case m[1] == "Read" && list == "deny":
		d.tell(at, Taken, "nothing outside the project is shown unless it is exposed")
	default:
		d.tell(at, None, "Claude Code asks nothing inside: the cloister is the boundary")
	}
}
