package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// The validator says types only in the text of its errors, as the parser does.
var (
	wrongText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("failed to parse as (?:an? )?(.+): `(\".*\")`$")
	})
	wrongType = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^unexpected type: expected (.+) but saw (.+)$`)
	})
	absent = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("^attribute `(.+)` in context for (.+) not found$")
	})
	unguarded = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("access to optional attribute `(.+)` in context")
	})
)

// mistyped are the words of the schema's validator, which tells each once for every
// action and knows no place.
func (l *loader) mistyped(err error) {
	lacking := map[string][]string{} // attributes of context, with the actions that have them not
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if w := absent().FindStringSubmatch(line); w != nil {
			lacking[w[1]] = append(lacking[w[1]], w[2])
		} else if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		slices.Sort(lacking[name])
		l.badCondition(name, fmt.Sprintf("context.%s is not there for %s", name,
			strings.Join(slices.Compact(lacking[name]), ", ")),
			"name in the scope the actions that it is meant for")
	}
	for _, line := range lines {
		if w := wrongText().FindStringSubmatch(line); w != nil {
			l.bad(w[2], w[2]+" is no "+w[1], map[string]string{"IP address": `such as ip("203.0.113.0/24")`}[w[1]])
		} else if w := wrongType().FindStringSubmatch(line); w != nil {
			l.bad("", fmt.Sprintf("a %s stands where a %s belongs", typeWord(w[2]), typeWord(w[1])), typeHint(w[1], w[2]))
		} else if w := unguarded().FindStringSubmatch(line); w != nil {
			l.bad("", "optional attribute context."+w[1]+" is read where it may be absent", "write context has "+w[1]+" && ...")
		} else {
			l.bad("", line, "")
		}
	}
}

// typeWord is a type without the validator's own marks.
func typeWord(s string) string {
	s, _, _ = strings.Cut(s, "<__cedar")
	return strings.ReplaceAll(s, "__cedar::internal::", "")
}

func typeHint(want, got string) string {
	switch {
	case strings.HasPrefix(want, "Set") && got == "String":
		return `part of a text is matched by like: context.hostname like "*.example.com"`
	case want == "Long" && got == "String":
		return "numbers stand without quotes; texts are not added"
	}
	return ""
}
