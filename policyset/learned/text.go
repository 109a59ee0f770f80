package learned

import (
	"fmt"
	"strings"
	"unicode"
)

// Cedar is the policy as a file of Cedar.
func (p Policy) Cedar() string {
	var out strings.Builder
	for _, s := range []struct {
		says, action string
		list         []Entry
	}{
		{"Files that were read, and nothing else is.", "FileOpenReadOnly", p.Read},
		{"Files that were written; in a folder names came and went.", "FileOpen", p.Write},
		{"Programs that were executed, with what loads them.", "ProcessExec", p.Programs},
	} {
		if len(s.list) == 0 {
			continue
		}
		fmt.Fprintf(&out, "// %s\npermit (principal, action == Action::%q, resource) when { resource in [\n", s.says,
			s.action)
		for i, e := range s.list {
			kind, comma, note := "File", ",", ""
			if i == len(s.list)-1 {
				comma = ""
			}
			if e.Dir {
				kind, note = "Dir", fmt.Sprintf(" // %d", e.Files)
			}
			fmt.Fprintf(&out, "  %s::%s%s%s\n", kind, Word(e.Path), comma, note)
		}
		out.WriteString("] };\n")
	}
	return out.String()
}

// Notes are what a person should know beside a policy.
func (u *Used) Notes(p Policy) []string {
	var out []string
	switch {
	case len(u.paths) == 0:
		out = append(out, "nothing that was opened or executed is on record; cloister run --mode record --isolation native "+
			"-- CMD "+
			"records it")
	case !p.Any():
		out = append(out, "nothing to add: the statements on disk permit what was opened and executed")
	}
	if u.Unseen > 0 {
		out = append(out, fmt.Sprintf("%d uses of files were counted and not recorded one by one, or cannot be named: "+
			"no statement permits them", u.Unseen))
	}
	for _, e := range p.Write {
		if e.Dir && len(parents(e.Path)) < 2 {
			out = append(out, "names came or went in "+Word(e.Path)+
				": all of it may be read and written; look whether that is meant")
		}
	}
	for _, e := range p.Programs {
		if e.Dir {
			out = append(out, "what may be written in "+Word(e.Path)+" may be executed there too")
		}
	}
	return out
}

// Word is a string of Cedar, whose escapes are fewer than Go's.
func Word(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case !unicode.IsPrint(r): // a terminal or an editor could act on it, or show another text
			fmt.Fprintf(&out, `\u{%x}`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
