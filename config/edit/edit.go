// Package edit adds a rule or the binding of a secret to the text of config.yaml.
//
// The promise: everything else stays as the person wrote it, comments too: the text is changed
// and not written anew. A layout that it does not know gives an error.
//
// It writes no file, and what it gives has to be read by config.Parse like any other text.
//
// Most readers want [WithRule].
package edit

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"cloister/config"
)

// Draft is a rule that someone would add.
type Draft struct {
	List   string // allow, ask or deny
	Domain string // or a range, where CIDR is set
	CIDR   bool
	Port   uint16 // 0 for those that a rule without ports has
	Method string
	Path   string
}

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._/-]+$`) })

// item is the rule as an element of its list.
func (d Draft) item() string {
	key := "domain"
	if d.CIDR {
		key = "cidr"
	}
	quote := func(s string) string {
		if plainWord().MatchString(s) {
			return s
		}
		return strconv.Quote(s)
	}
	parts := []string{key + ": " + quote(d.Domain)}
	if d.Port != 0 {
		parts = append(parts, fmt.Sprintf("ports: [%d]", d.Port))
	}
	if d.Method != "" {
		parts = append(parts, "methods: ["+quote(d.Method)+"]")
	}
	if d.Path != "" {
		parts = append(parts, "paths: ["+quote(d.Path)+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// WithRule is the text of config.yaml with one more rule, as the first of its
// list. Everything else stays as the person wrote it, comments too: the text is
// changed and not written anew. A layout that it does not know gives an error;
// what it gives has to be read by Parse like any other text.
func WithRule(text []byte, d Draft) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	if len(bytes.TrimSpace(text)) == 0 {
		lines = []string{"version: 1\n"}
	}
	if last := len(lines) - 1; lines[last] != "" && !strings.HasSuffix(lines[last], "\n") {
		lines[last] += "\n"
	}
	at, rest := findKey(lines, 0, len(lines), 0, "proxy")
	switch {
	case at < 0:
		lines = append(lines, "proxy:\n", "  "+d.List+":\n", "    - "+d.item()+"\n")
		return []byte(strings.Join(lines, "")), nil
	case strings.HasPrefix(rest, "{") && strings.TrimSpace(rest) != "{}":
		return nil, fmt.Errorf("draft rule: proxy is written on one line: write its keys below each other first")
	case rest != "" && !strings.HasPrefix(rest, "#"):
		lines[at] = "proxy:\n"
	}
	end := blockEnd(lines, at+1, 0)
	inner := childIndent(lines, at+1, end)
	pad := strings.Repeat(" ", inner)
	list, rest := findKey(lines, at+1, end, inner, d.List)
	switch {
	case list < 0:
		return spliced(lines, at+1, pad+d.List+":\n", pad+"  - "+d.item()+"\n"), nil
	case strings.HasPrefix(rest, "["):
		open := strings.Index(lines[list], "[") + 1
		sep := ", "
		if strings.HasPrefix(strings.TrimSpace(lines[list][open:]), "]") {
			sep = ""
		}
		lines[list] = lines[list][:open] + d.item() + sep + lines[list][open:]
		return []byte(strings.Join(lines, "")), nil
	case rest != "" && !strings.HasPrefix(rest, "#"):
		return nil, fmt.Errorf("draft rule: proxy.%s is no list", d.List)
	}
	dash := pad + "  "
	for _, l := range lines[list+1 : end] {
		if trimmed := strings.TrimSpace(l); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			if strings.HasPrefix(trimmed, "-") {
				dash = l[:strings.Index(l, "-")]
			}
			break
		}
	}
	return spliced(lines, list+1, dash+"- "+d.item()+"\n"), nil
}

// WithSecret is the text of config.yaml with one more binding, as the first of
// secrets. Like WithRule it leaves everything else as it stands.
func WithSecret(text []byte, b config.Secret) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	if len(bytes.TrimSpace(text)) == 0 {
		lines = []string{"version: 1\n"}
	}
	if last := len(lines) - 1; lines[last] != "" && !strings.HasSuffix(lines[last], "\n") {
		lines[last] += "\n"
	}
	item := fmt.Sprintf("{name: %s, hosts: [%s], header: %s", b.Name, strings.Join(b.Hosts, ", "), b.Header)
	if b.Format != "" {
		item += ", format: " + strconv.Quote(b.Format)
	}
	item += "}"
	at, rest := findKey(lines, 0, len(lines), 0, "secrets")
	switch {
	case at < 0:
		lines = append(lines, "secrets:\n", "  - "+item+"\n")
		return []byte(strings.Join(lines, "")), nil
	case strings.HasPrefix(rest, "["):
		open := strings.Index(lines[at], "[") + 1
		sep := ", "
		if strings.HasPrefix(strings.TrimSpace(lines[at][open:]), "]") {
			sep = ""
		}
		lines[at] = lines[at][:open] + item + sep + lines[at][open:]
		return []byte(strings.Join(lines, "")), nil
	case rest != "" && !strings.HasPrefix(rest, "#"):
		return nil, fmt.Errorf("bind secret: secrets is no list")
	}
	return spliced(lines, at+1, strings.Repeat(" ", listIndent(lines[at+1:]))+"- "+item+"\n"), nil
}

// listIndent is how far the elements of a list stand in.
func listIndent(lines []string) int {
	for _, l := range lines {
		if trimmed := strings.TrimSpace(l); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			if strings.HasPrefix(trimmed, "-") {
				return indentOf(l)
			}
			break
		}
	}
	return 2
}

func spliced(lines []string, at int, more ...string) []byte {
	out := append([]string{}, lines[:at]...)
	out = append(append(out, more...), lines[at:]...)
	return []byte(strings.Join(out, ""))
}

// findKey finds a key at an indentation between two lines, with what follows it.
func findKey(lines []string, from, to, indent int, key string) (at int, rest string) {
	prefix := strings.Repeat(" ", indent) + key + ":"
	for i := from; i < to; i++ {
		if after, ok := strings.CutPrefix(lines[i], prefix); ok &&
			(after == "" || strings.ContainsAny(after[:1], " \r\n\t")) {
			return i, strings.TrimSpace(after)
		}
	}
	return -1, ""
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// blockEnd is the first line behind a block whose key has an indentation.
func blockEnd(lines []string, from, indent int) int {
	for i := from; i < len(lines); i++ {
		trimmed := strings.TrimSpace(lines[i])
		if trimmed != "" && !strings.HasPrefix(trimmed, "#") && indentOf(lines[i]) <= indent {
			return i
		}
	}
	return len(lines)
}

// childIndent is how far the keys of a block stand in.
func childIndent(lines []string, from, to int) int {
	for _, l := range lines[from:to] {
		if trimmed := strings.TrimSpace(l); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			return indentOf(l)
		}
	}
	return 2
}
