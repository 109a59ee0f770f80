package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SRT are the settings of the srt command, as far as they have an equal.
type SRT struct {
	Network struct {
		AllowedDomains  []string `json:"allowedDomains"`
		DeniedDomains   []string `json:"deniedDomains"`
		StrictAllowlist bool     `json:"strictAllowlist"`
	} `json:"network"`
	Filesystem struct {
		DenyRead   []string `json:"denyRead"`
		AllowRead  []string `json:"allowRead"`
		AllowWrite []string `json:"allowWrite"`
		DenyWrite  []string `json:"denyWrite"`
	} `json:"filesystem"`
	Credentials struct {
		EnvVars []struct {
			Name string `json:"name"`
		} `json:"envVars"`
	} `json:"credentials"`
}

// srtNeeds are the lists without which settings are none, there as here.
var srtNeeds = [][2]string{
	{"network", "allowedDomains"}, {"network", "deniedDomains"},
	{"filesystem", "denyRead"}, {"filesystem", "allowWrite"}, {"filesystem", "denyWrite"},
}

// ParseSRT reads settings of srt. A key that is not known says nothing, there as here.
func ParseSRT(text []byte) (SRT, error) {
	var s SRT
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return s, fmt.Errorf("no valid JSON: %w", err)
	}
	for _, needed := range srtNeeds {
		var part map[string]json.RawMessage
		if err := json.Unmarshal(keys[needed[0]], &part); err != nil || part[needed[1]] == nil {
			return s, fmt.Errorf("no valid settings: %s.%s is missing", needed[0], needed[1])
		}
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("no valid settings: %w", err)
	}
	for _, name := range slices.Concat(s.Network.AllowedDomains, s.Network.DeniedDomains) {
		every := name
		if name == "*" || strings.HasPrefix(name, "*:") {
			every = "every.example" + name[1:] // its port is one
		}
		if _, err := srtRule(every); err != nil {
			return s, fmt.Errorf("no valid settings: %w", err)
		}
	}
	for _, name := range s.Network.AllowedDomains {
		if strings.HasPrefix(name, "*:") || name == "*" || strings.HasPrefix(name, "*.") && strings.Count(name, ".") < 2 {
			return s, fmt.Errorf("no valid settings: allowedDomains: %q is too broad", name)
		}
	}
	return s, nil
}

// srtRule is a destination of srt: NAME, *.NAME for any depth, an address, with :PORT.
func srtRule(text string) (rule, error) {
	var r rule
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		port, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil || port == 0 {
			return r, fmt.Errorf("%q has no port", text)
		}
		host, r.port = text[:i], uint16(port)
	}
	host = strings.Trim(host, "[]")
	if a, err := netip.ParseAddr(host); err == nil {
		r.cidr = netip.PrefixFrom(a, a.BitLen()).String()
		return r, nil
	}
	if host == "" || strings.ContainsAny(host, "/ \t\n\"\\:") || strings.Contains(strings.TrimPrefix(host, "*."), "*") {
		return r, fmt.Errorf("%q is no destination", text)
	}
	r.domain = strings.ToLower(host)
	return r, nil
}

// Destinations are what of settings may be reached, as --allow and --deny take it.
func (s SRT) Destinations() (allow, deny []string) {
	return s.Network.AllowedDomains, s.Network.DeniedDomains
}

// json is settings of srt or of Claude Code.
func (d *draft) json(text []byte) error {
	var keys map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&keys); err != nil {
		return fmt.Errorf("no valid JSON: %w", err)
	}
	_, sandbox := keys["sandbox"]
	_, permissions := keys["permissions"]
	_, network := keys["network"]
	_, filesystem := keys["filesystem"]
	switch {
	case sandbox || permissions:
		d.from = "Claude Code's settings"
		d.claude(keys)
		return nil
	case network || filesystem:
		d.from = "settings of srt"
		if _, err := ParseSRT(text); err != nil {
			return err
		}
		d.srt("", keys)
		return nil
	}
	if v, ok := keys["version"]; ok {
		return fmt.Errorf("version %v: %w", v, ErrUnknown)
	}
	return ErrUnknown
}

// srt takes the keys of srt's settings, which stand below a prefix in those of Claude
// Code.
func (d *draft) srt(prefix string, keys map[string]any) {
	d.unlisted, d.noPresets = "deny", true
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch value := keys[key].(type) {
		case map[string]any:
			switch key {
			case "network":
				d.srtNetwork(prefix+"network.", value)
				continue
			case "filesystem":
				d.srtFiles(prefix+"filesystem.", value)
				continue
			}
		}
		switch key {
		case "credentials":
			d.tell(prefix+key, None, "credentials stay in the vault: cloister secret set NAME, and secrets: in config.yaml")
		case "enableWeakerNestedSandbox", "enableWeakerNetworkIsolation":
			d.tell(prefix+key, None, "a guarantee is given up for one session, by --accept")
		default:
			d.tell(prefix+key, None, "nothing is made of it here")
		}
	}
}

func (d *draft) srtNetwork(prefix string, keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch key {
		case "allowedDomains", "deniedDomains":
			for _, name := range texts(keys[key]) {
				d.srtDestination(prefix+key, name, key == "allowedDomains")
			}
			d.empty(prefix+key, keys[key])
		case "strictAllowlist":
			d.tell(prefix+key, Taken, "unlisted_domain_behavior: deny")
		case "tlsTerminate":
			d.tell(prefix+key, Changed, "TLS is inspected unless a rule says tls: tunnel; the authority is the session's own")
		case "allowLocalBinding":
			d.tell(prefix+key, Taken, "a cloister has a loopback of its own")
		case "allowUnixSockets", "allowAllUnixSockets":
			d.tell(prefix+key, None, "no socket of the host's is shown")
		default:
			d.tell(prefix+key, None, "the guardian is the only way out")
		}
	}
}

func (d *draft) srtDestination(key, name string, allow bool) {
	key += " " + name
	if every, ports, _ := strings.Cut(name, ":"); every == "*" && !allow {
		d.srtEvery(key, ports)
		return
	}
	r, err := srtRule(name)
	if err != nil {
		d.tell(key, None, "%v", err)
		return
	}
	if !allow {
		d.deny = append(d.deny, r)
		d.tell(key, Taken, "%s", r)
		return
	}
	if r.inner() {
		d.tell(key, None, "an address of this machine or its network is reached by a name alone: proxy.hosts")
		return
	}
	how, why := Taken, r.String()
	if r.port == 0 {
		how, why = Changed, why+": ports 443 and 80, not every port"
	}
	d.allow = append(d.allow, r)
	d.tell(key, how, "%s", why)
}

// empty says of a list without an entry that it is taken.
func (d *draft) empty(key string, v any) {
	if list, ok := v.([]any); ok && len(list) == 0 {
		d.tell(key, Taken, "the list is empty")
	}
}

// srtEvery takes a denial of every name, which weighs more than what is allowed, there as
// here; ports is empty for all of them.
func (d *draft) srtEvery(key, ports string) {
	port, err := strconv.ParseUint(ports, 10, 16)
	switch {
	case ports == "":
		d.nowhere = true
		d.tell(key, Taken, "nothing is allowed by name")
	case err == nil && port > 0:
		d.shut = append(d.shut, uint16(port))
		d.tell(key, Taken, "no name is allowed with that port")
	default:
		d.tell(key, None, "it has no port")
	}
}

func (d *draft) srtFiles(prefix string, keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, path := range texts(keys[key]) {
			if strings.HasPrefix(path, "//") { // so Claude Code writes a path from the top
				path = path[1:]
			}
			own := filepath.IsLocal(strings.TrimPrefix(path, "./")) && !strings.HasPrefix(path, "~")
			named := prefix + key + " " + path
			inside := strings.TrimPrefix(path, "./")
			switch {
			case key == "denyRead" && own:
				d.hide = append(d.hide, inside)
				d.tell(named, Taken, "filesystem.hide")
			case key == "denyRead":
				d.tell(named, Taken, "nothing outside the project is shown unless it is exposed")
			case key == "allowRead" && own:
				d.tell(named, Taken, "the project is shown")
			case key == "allowRead":
				d.exposed(named, path, "")
			case key == "allowWrite" && own:
				d.tell(named, Changed, "all of the project can be written, but for what is protected")
			case key == "allowWrite" && (path == "/tmp" || strings.HasPrefix(path, "/tmp/") ||
				strings.HasPrefix(path, "/private/tmp")):
				d.tell(named, Changed, "a cloister has a /tmp of its own")
			case key == "allowWrite":
				d.exposed(named, path, ":rw")
			case key == "denyWrite" && own:
				d.protect = append(d.protect, inside)
				d.tell(named, Taken, "filesystem.protect")
			case key == "denyWrite":
				d.tell(named, Taken, "nothing outside the project can be written unless it is exposed")
			default:
				d.tell(named, None, "nothing is made of it here")
			}
		}
		if _, list := keys[key].([]any); !list {
			d.tell(prefix+key, None, "nothing is made of it here")
		}
		d.empty(prefix+key, keys[key])
	}
}

// exposed shows a path of the host, which is written as the file has it.
func (d *draft) exposed(key, path, access string) {
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") || strings.ContainsAny(path, "*?[:") {
		d.tell(key, None, "it is no plain path: name what of it is needed, filesystem.expose")
		return
	}
	d.expose = append(d.expose, path+access)
	d.tell(key, Taken, "filesystem.expose: %s", path+access)
}

// texts is a list of texts in a document.
func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

var errNoRules = errors.New("it says nothing that could be taken")
