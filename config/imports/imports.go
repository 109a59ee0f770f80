// Package imports reads what other sandboxes keep as their settings, and says it as
// config.yaml does.
//
// The promise: of every key it reports whether it was taken, changed, or has no equal; what
// it writes allows no more than was allowed there, or says where it does; a format that
// it does not know is one line, and nothing else.
//
// It writes no file and reads no credential.
//
// Most readers want [Read].
package imports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// How a key of theirs is ours.
const (
	Taken   = "taken"
	Changed = "changed"
	None    = "no equal"
)

// Note says what became of one key.
type Note struct{ Key, How, Why string }

// Result is what was read.
type Result struct {
	From  string // in a person's words
	Text  string // config.yaml
	Notes []Note
}

// ErrUnknown says that a file is none of the known formats.
var ErrUnknown = errors.New("its format is none that is known: the original Cloister's folder, settings of srt or " +
	"Claude Code, " +
	"Leash's Cedar, or commands of Docker's sbx")

// maxFile bounds a file that is read.
const maxFile = 1 << 20

// Read reads a file, or the original Cloister's folder.
func Read(path string) (Result, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Result{}, fmt.Errorf("import: %w", err)
	}
	folder := ""
	if info.IsDir() {
		folder, path = path, filepath.Join(path, "config.yaml")
	}
	text, err := readFile(path)
	if err != nil {
		return Result{}, fmt.Errorf("import: %w", err)
	}
	d := &draft{}
	trimmed := bytes.TrimSpace(text)
	switch {
	case filepath.Ext(path) == ".cedar":
		d.from, err = "Leash's Cedar", d.leash(path, text)
	case filepath.Ext(path) == ".yaml" || filepath.Ext(path) == ".yml":
		d.from, err = "the original Cloister", d.original(text)
	case bytes.HasPrefix(trimmed, []byte("{")):
		err = d.json(trimmed)
	case isSbx(text):
		d.from, err = "commands of Docker's sbx", d.sbx(text)
	default:
		err = ErrUnknown
	}
	if err != nil {
		return Result{}, fmt.Errorf("import %s: %w", path, err)
	}
	if folder != "" {
		if err := d.originalFolder(folder); err != nil {
			return Result{}, fmt.Errorf("import %s: %w", folder, err)
		}
	}
	d.settle()
	return Result{From: d.from, Text: d.yaml(), Notes: d.notes}, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is too large", path)
	}
	return text, err
}

// rule is one line of allow, ask or deny.
type rule struct {
	domain, cidr string
	port         uint16
	methods      []string
	paths        []string
}

func (r rule) String() string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+": "+value) }
	if r.domain != "" {
		add("domain", strconv.Quote(r.domain))
	} else {
		add("cidr", strconv.Quote(r.cidr))
	}
	if r.port != 0 {
		add("ports", fmt.Sprintf("[%d]", r.port))
	}
	if len(r.methods) > 0 {
		add("methods", quoted(r.methods))
	}
	if len(r.paths) > 0 {
		add("paths", quoted(r.paths))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// inner reports whether a rule names addresses of this machine or of its network, where no
// rule leads to.
func (r rule) inner() bool {
	p, err := netip.ParsePrefix(r.cidr)
	if err != nil {
		return false
	}
	a := p.Addr()
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified()
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// draft is a configuration in the making.
type draft struct {
	from               string
	agent              string
	unlisted, timeout  string
	noPresets          bool
	nowhere            bool     // whatever is allowed by name is denied
	shut               []uint16 // ports that are denied of every name
	requests, bytes    int64
	allow, ask, deny   []rule
	hide, protect      []string
	expose, refs       []string
	auto, manual, none []string // patterns of hostexec
	notes              []Note
}

func (d *draft) tell(key, how, format string, args ...any) {
	d.notes = append(d.notes, Note{key, how, fmt.Sprintf(format, args...)})
}

// settle takes back what is allowed by name where a denial of every name weighs more.
func (d *draft) settle() {
	var kept []rule
	for _, r := range d.allow {
		ports := []uint16{r.port}
		if r.port == 0 && len(d.shut) > 0 {
			ports = []uint16{443, 80} // what a rule without ports is for
		}
		left := slices.DeleteFunc(slices.Clone(ports), func(p uint16) bool { return d.nowhere || slices.Contains(d.shut, p) })
		switch {
		case len(left) < len(ports):
			d.tell("allowed "+r.String(), Changed, "less of it is: a denial of every name weighs more")
			for _, r.port = range left {
				kept = append(kept, r)
			}
		default:
			kept = append(kept, r)
		}
	}
	d.allow = kept
}

// yaml writes the draft.
func (d *draft) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Imported from %s by \"cloister config import\".\nversion: 1\n", d.from)
	if d.agent != "" {
		fmt.Fprintf(&b, "defaults: {agent: %q}\n", d.agent)
	}
	b.WriteString("proxy:\n")
	fmt.Fprintf(&b, "  unlisted_domain_behavior: %s\n", cmp.Or(d.unlisted, "ask"))
	if d.noPresets {
		b.WriteString("  presets: []\n")
	}
	if d.timeout != "" {
		fmt.Fprintf(&b, "  approval_timeout: %s\n", d.timeout)
	}
	if d.requests > 0 {
		fmt.Fprintf(&b, "  rate_limit: {requests_per_minute: %d}\n", d.requests)
	}
	if d.bytes > 0 {
		fmt.Fprintf(&b, "  max_request_bytes: %d\n", d.bytes)
	}
	for _, l := range []struct {
		key  string
		list []rule
	}{{"allow", d.allow}, {"ask", d.ask}, {"deny", d.deny}} {
		if len(l.list) == 0 {
			continue
		}
		fmt.Fprintf(&b, "  %s:\n", l.key)
		var seen []string
		for _, r := range l.list {
			if text := r.String(); !slices.Contains(seen, text) {
				seen = append(seen, text)
				fmt.Fprintf(&b, "    - %s\n", text)
			}
		}
	}
	section := func(head string, keys []string, lists [][]string, item func(string) string) {
		for i, list := range lists {
			if len(list) == 0 {
				continue
			}
			if head != "" {
				b.WriteString(head + ":\n")
				head = ""
			}
			fmt.Fprintf(&b, "  %s:\n", keys[i])
			for _, s := range list {
				fmt.Fprintf(&b, "    - %s\n", item(s))
			}
		}
	}
	section("filesystem", []string{"expose", "refs", "protect", "hide"}, [][]string{d.expose, d.refs, d.protect, d.hide},
		strconv.Quote)
	section("hostexec", []string{"auto_approve", "manual_approve", "deny"}, [][]string{d.auto, d.manual, d.none},
		func(s string) string { return "{pattern: " + strconv.Quote(s) + "}" })
	return b.String()
}
