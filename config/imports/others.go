package imports

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
)

// original takes a config.yaml of the original Cloister.
func (d *draft) original(text []byte) error {
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return fmt.Errorf("no valid YAML: %s", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	if v, ok := keys["version"]; ok && fmt.Sprint(v) != "1" {
		return fmt.Errorf("version %v: %w", v, ErrUnknown)
	}
	if len(keys) == 0 {
		return errNoRules
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, _ := keys[key].(map[string]any)
		switch key {
		case "version":
		case "proxy":
			d.originalProxy(value)
		case "defaults":
			d.originalDefaults(value)
		case "hostexec":
			for _, list := range slices.Sorted(maps.Keys(value)) {
				to, known := map[string]*[]string{"auto_approve": &d.auto, "manual_approve": &d.manual}[list]
				for _, pattern := range patterns(value[list]) {
					if known {
						*to = append(*to, pattern)
						d.tell("hostexec."+list+" "+pattern, Changed,
							"the whole command line has to match, and a script that changes is asked about again")
					}
				}
				if !known {
					d.tell("hostexec."+list, None, "commands are asked for by the gate")
				}
			}
		case "agents":
			d.tell(key, None, "credentials go into the vault: cloister setup AGENT")
		case "refs":
			for _, path := range texts(keys[key]) {
				d.refs = append(d.refs, path)
				d.tell("refs "+path, Taken, "filesystem.refs")
			}
		default:
			d.tell(key, None, "nothing was made of it there either, or the project's folder says it")
		}
	}
	return nil
}

func (d *draft) originalProxy(keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := "proxy." + key
		switch key {
		case "allow", "deny":
			for _, name := range patterns(keys[key]) {
				d.srtDestination(at, name, key == "allow")
			}
		case "unlisted_domain_behavior":
			words := map[string]string{"request_approval": "ask", "reject": "deny", "ask": "ask", "deny": "deny"}
			word, known := words[fmt.Sprint(keys[key])]
			if d.unlisted = word; !known {
				d.unlisted = "deny"
				d.tell(at, Changed, "%q is not known: deny", fmt.Sprint(keys[key]))
				continue
			}
			d.tell(at, Taken, "%s", word)
		case "approval_timeout":
			wait, err := time.ParseDuration(fmt.Sprint(keys[key]))
			if err != nil || wait <= 0 {
				d.tell(at, None, "%q is no time: write one as 5m", fmt.Sprint(keys[key]))
				continue
			}
			d.timeout = wait.String()
			d.tell(at, Taken, "%s", d.timeout)
		case "rate_limit":
			if _, err := fmt.Sscan(fmt.Sprint(keys[key]), &d.requests); err == nil {
				d.tell(at, Changed, "rate_limit.requests_per_minute of each session")
			}
		case "max_request_bytes":
			if _, err := fmt.Sscan(fmt.Sprint(keys[key]), &d.bytes); err == nil {
				d.tell(at, Taken, "%d", d.bytes)
			}
		default:
			d.tell(at, None, "the gate needs no address")
		}
	}
}

// patterns are the values of a list of {domain: X} or {pattern: X}.
func patterns(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		m, _ := e.(map[string]any)
		for _, key := range []string{"domain", "pattern"} {
			if s, ok := m[key].(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// sbxLine is a command that sets a policy of Docker's sandboxes.
var sbxLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*(\$ )?(sbx policy (allow|deny|set-default|init)|docker sandbox network proxy) `)
})

func isSbx(text []byte) bool { return sbxLine().Match(text) }

// sbx takes the commands by which policies of Docker's sandboxes are set.
func (d *draft) sbx(text []byte) error {
	d.unlisted, d.noPresets = "deny", true
	lines := bufio.NewScanner(bytes.NewReader(bytes.ReplaceAll(text, []byte("\\\n"), []byte(" "))))
	for lines.Scan() {
		line := strings.TrimPrefix(strings.TrimSpace(lines.Text()), "$ ")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(strings.NewReplacer(`"`, "", "'", "").Replace(line))
		if !isSbx([]byte(line + " ")) {
			d.tell(line, None, "it sets no policy")
			continue
		}
		if words[0] == "docker" {
			d.sbxProxy(words[4:])
		} else {
			d.sbxPolicy(words[2:])
		}
	}
	return lines.Err()
}

func (d *draft) sbxPolicy(words []string) {
	at := "sbx policy " + strings.Join(words, " ")
	// -g and --global say what is so without them.
	words = slices.DeleteFunc(words, func(w string) bool { return w == "-g" || w == "--global" })
	one := slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--sandbox") })
	switch {
	case one:
		d.tell(at, None, "it is for one sandbox: a project's own rules stand in projects/NAME.yaml, with the same keys")
	case (words[0] == "set-default" || words[0] == "init") && len(words) == 2:
		d.sbxDefault(at, words[1])
	case len(words) == 3 && words[1] == "network":
		for name := range strings.SplitSeq(words[2], ",") {
			d.sbxDestination(at, name, words[0] == "allow")
		}
	default:
		d.tell(at, None, "write it by hand: a rule may have methods and paths")
	}
}

func (d *draft) sbxDefault(at, word string) {
	switch word {
	case "allow-all", "allow", "open":
		d.unlisted = "ask"
		d.tell(at, Changed, "what no rule names is asked about: nothing allows every destination")
	case "balanced":
		d.noPresets = false
		d.tell(at, Changed, "the presets of Cloister, and not Docker's list")
	case "deny-all", "deny", "locked-down":
		d.tell(at, Taken, "unlisted_domain_behavior: deny, and no presets")
	default:
		d.tell(at, None, "it is no policy that is known")
	}
}

func (d *draft) sbxDestination(at, name string, allow bool) {
	plain, deep := strings.CutPrefix(name, "**.")
	if deep {
		name = "*." + plain
	}
	if !deep && strings.HasPrefix(name, "*.") && allow {
		d.tell(at, None, "%s is one label there, and any depth here: name the hosts", name)
		return
	}
	if strings.Contains(name, "/") {
		r := rule{cidr: name}
		switch {
		case !allow:
			d.deny = append(d.deny, r)
			d.tell(at, Taken, "%s", r)
		case r.inner():
			d.tell(at, None, "addresses of this machine or its network are reached by a name alone: proxy.hosts")
		default:
			d.allow = append(d.allow, r)
			d.tell(at, Changed, "%s: ports 443 and 80, not every port", r)
		}
		return
	}
	if host, _, _ := strings.Cut(name, ":"); host == "localhost" && allow {
		d.tell(at, None, "inside, localhost is the cloister's own: a service of this machine gets a name in proxy.hosts")
		return
	}
	if name == "**" {
		d.sbxDefault(at, map[bool]string{true: "allow-all", false: "deny-all"}[allow])
		return
	}
	d.srtDestination(at, name, allow)
}

// sbxProxy is docker sandbox network proxy NAME with its flags.
func (d *draft) sbxProxy(words []string) {
	for i := 0; i < len(words); i++ {
		flag, value, joined := strings.Cut(words[i], "=")
		if !strings.HasPrefix(flag, "--") {
			continue // the sandbox
		}
		if !joined && i+1 < len(words) {
			i++
			value = words[i]
		}
		at := "docker sandbox network proxy " + flag + " " + value
		switch flag {
		case "--policy":
			d.sbxDefault(at, value)
		case "--allow-host":
			d.sbxDestination(at, value, true)
		case "--block-host", "--block-cidr":
			d.sbxDestination(at, value, false)
		case "--allow-cidr":
			d.tell(at, None, "private addresses are reached by a name alone: proxy.hosts")
		default:
			d.tell(at, None, "for programs that pin a certificate a rule says tls: tunnel")
		}
	}
}
