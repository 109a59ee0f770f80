package pathglob

import (
	"slices"
	"strings"
)

// Set matches a path with many patterns at once, at a cost that hardly grows with how many they are: those that begin
// alike are followed together, and names with a * are found by how they begin or end.
type Set struct{ top node }

// node is where patterns are that have used up the same parts.
type node struct {
	ends  []int // the patterns that are used up here
	plain map[string]*node
	wild  []wildcard
	// Of wild those that end, or begin, with a text of their own, by that text; rest are the others.
	bySuffix, byPrefix texts
	rest               []int
	many               *node
	again              bool // any name leads here again: it is behind **
}

type wildcard struct {
	text string
	to   *node
}

// texts are places in a list by a text, and the lengths that those texts have.
type texts struct {
	at      map[string][]int
	lengths []int
}

// Add has a whole pattern matched too; n is what Match gives for it.
func (s *Set) Add(p Pattern, n int) {
	if !p.whole {
		return
	}
	at := &s.top
	for _, part := range p.parts {
		at = at.next(part)
	}
	at.ends = append(at.ends, n)
}

func (n *node) next(p part) *node {
	switch p.kind {
	case plain:
		if n.plain == nil {
			n.plain = map[string]*node{}
		}
		if n.plain[p.text] == nil {
			n.plain[p.text] = &node{}
		}
		return n.plain[p.text]
	case many:
		if n.many == nil {
			n.many = &node{again: true}
		}
		return n.many
	case wild:
	}
	suffix := p.text[strings.LastIndexAny(p.text, "*?")+1:]
	prefix := p.text[:strings.IndexAny(p.text, "*?")]
	same := func(i int) bool { return n.wild[i].text == p.text }
	list := n.rest
	switch {
	case suffix != "":
		list = n.bySuffix.at[suffix]
	case prefix != "":
		list = n.byPrefix.at[prefix]
	}
	if i := slices.IndexFunc(list, same); i >= 0 {
		return n.wild[list[i]].to
	}
	i := len(n.wild)
	n.wild = append(n.wild, wildcard{p.text, &node{}})
	switch {
	case suffix != "":
		n.bySuffix.add(suffix, i)
	case prefix != "":
		n.byPrefix.add(prefix, i)
	default:
		n.rest = append(n.rest, i)
	}
	return n.wild[i].to
}

func (t *texts) add(text string, i int) {
	if t.at == nil {
		t.at = map[string][]int{}
	}
	if !slices.Contains(t.lengths, len(text)) {
		t.lengths = append(t.lengths, len(text))
	}
	t.at[text] = append(t.at[text], i)
}

// Match gives the numbers of the patterns that name a clean absolute path, or a folder above it, until found says
// that it is enough.
func (s *Set) Match(at string, found func(n int) (enough bool)) {
	if !strings.HasPrefix(at, "/") || at == "/" {
		return
	}
	seen := map[*node]bool{}
	now := follow(nil, &s.top)
	for name := range strings.SplitSeq(at[1:], "/") {
		var next []*node
		for _, n := range now {
			next = n.step(next, name)
		}
		for _, n := range next {
			if seen[n] || len(n.ends) == 0 {
				continue
			}
			seen[n] = true
			if slices.ContainsFunc(n.ends, found) {
				return
			}
		}
		now = next
	}
}

// follow adds a node, and those that are reached from it without a name.
func follow(list []*node, n *node) []*node {
	for ; n != nil && !slices.Contains(list, n); n = n.many {
		list = append(list, n)
	}
	return list
}

// step adds the nodes to which a name leads.
func (n *node) step(list []*node, name string) []*node {
	if n.again {
		list = follow(list, n)
	}
	list = follow(list, n.plain[name])
	try := func(of []int) {
		for _, i := range of {
			if matches(n.wild[i].text, name) {
				list = follow(list, n.wild[i].to)
			}
		}
	}
	for _, size := range n.bySuffix.lengths {
		if size <= len(name) {
			try(n.bySuffix.at[name[len(name)-size:]])
		}
	}
	for _, size := range n.byPrefix.lengths {
		if size <= len(name) {
			try(n.byPrefix.at[name[:size]])
		}
	}
	try(n.rest)
	return list
}
