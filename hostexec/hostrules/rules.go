// Package hostrules decides about commands for the host by what a person wrote down: patterns, and programs with what
// they may be given.
//
// The promise: a rule that allows or asks speaks of a whole command; deny comes before ask, ask before allow, and what
// no rule names is denied. Git on the host, shells and known ways out of a wide pattern are never allowed by a pattern
// alone.
//
// It runs nothing: package hostexec does.
//
// Most readers want [Compile] and [Set.Judge].
package hostrules

import (
	"fmt"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"cloister/hostexec"
	"cloister/internal/source"
	"cloister/policy"
)

// Rule is one line of a list: a Pattern, or a Program with what it may be given.
type Rule struct {
	Effect  policy.Effect
	Pattern string
	Program string   // a name that is looked up, or an absolute path
	Args    []string // words, or <path> <ref> <package> <any>; a last ... repeats the one before
	Flags   []string // those it may have: -v, --name, --name=<path>, --name=value, or --name <path> in two words
	Place   string   // file:line
}

// Set is the rules, compiled. The zero value denies everything.
type Set struct {
	deny, ask, auto []rule
}

type rule struct {
	Rule
	re *regexp.Regexp
}

func (r *rule) name() string {
	if r.re != nil {
		return "pattern " + r.Pattern
	}
	return strings.Join(append([]string{"program " + r.Program}, r.Args...), " ")
}

// verdict is what the rule decides with its effect, or asks instead of that.
func (r *rule) verdict(effect policy.Effect, reason string) policy.Verdict {
	v := policy.Verdict{Effect: effect, Rule: r.name(), Origin: source.Position{Source: r.Place}}
	switch {
	case effect == policy.Deny:
		v.Reason, v.Hints = "denied by the rule "+v.Rule+" at "+r.Place,
			[]string{"remove or narrow that rule; nothing overrides a deny"}
	case reason != "":
		v.Reason = "the rule " + v.Rule + " at " + r.Place + " does not cover it: " + reason
	case effect == policy.Ask:
		v.Reason = "the rule " + v.Rule + " at " + r.Place + " asks a person first"
	case effect == policy.Allow:
		v.Reason = "allowed by the rule " + v.Rule + " at " + r.Place
	}
	return v
}

// Compile checks every rule. An allow or ask pattern must speak of a whole
// command: what is not anchored at both ends would let anything follow.
func Compile(list []Rule) (*Set, []error) {
	var out Set
	var errs []error
	for _, r := range list {
		c := rule{Rule: r}
		if err := c.compile(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Place, err))
			continue
		}
		switch r.Effect {
		case policy.Deny:
			out.deny = append(out.deny, c)
		case policy.Ask:
			out.ask = append(out.ask, c)
		case policy.Allow:
			out.auto = append(out.auto, c)
		}
	}
	return &out, errs
}

// Check tells what is wrong with one rule.
func Check(r Rule) error {
	c := rule{Rule: r}
	return c.compile()
}

func (r *rule) compile() error {
	switch {
	case r.Pattern != "" && r.Program != "":
		return fmt.Errorf("a rule has a pattern or a program, not both")
	case r.Pattern == "" && r.Program == "":
		return fmt.Errorf("a rule has a pattern or a program")
	case r.Pattern == "":
		return r.checkTyped()
	case len(r.Args)+len(r.Flags) > 0:
		return fmt.Errorf("args and flags are for rules with a program")
	}
	re, err := regexp.Compile(r.Pattern)
	if err != nil {
		return fmt.Errorf("pattern %q: %w", r.Pattern, err)
	}
	if r.Effect != policy.Deny {
		if err := anchored(r.Pattern); err != nil {
			return err
		}
	}
	r.re = re
	return nil
}

// anchored refuses a pattern that could match a part of a command.
func anchored(pattern string) error {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return fmt.Errorf("pattern %q: %w", pattern, err)
	}
	ends := func(op syntax.Op, at *syntax.Regexp) bool { return at.Op == op }
	switch {
	case tree.Op == syntax.OpConcat && len(tree.Sub) >= 2 &&
		ends(syntax.OpBeginText, tree.Sub[0]) && ends(syntax.OpEndText, tree.Sub[len(tree.Sub)-1]):
		return nil
	case strings.Contains(pattern, "|"):
		return fmt.Errorf("pattern %q: ^ and $ do not hold for both sides of |: write ^(a|b)$", pattern)
	}
	return fmt.Errorf("pattern %q: it must begin with ^ and end with $, or anything could follow", pattern)
}

var kinds = []string{"<path>", "<ref>", "<package>", "<any>"}

func (r *rule) checkTyped() error {
	if strings.ContainsRune(r.Program, '/') && !filepath.IsAbs(r.Program) {
		return fmt.Errorf("program %q: write a name, or a whole path", r.Program)
	}
	for i, a := range r.Args {
		if strings.HasPrefix(a, "<") && !slices.Contains(kinds, a) {
			return fmt.Errorf("args: %q is none of %s", a, strings.Join(kinds, " "))
		}
		if a == "..." && (i == 0 || i != len(r.Args)-1) {
			return fmt.Errorf("args: ... repeats the word before it, and is the last")
		}
	}
	for _, f := range r.Flags {
		name, value, has := strings.Cut(f, "=")
		if !has {
			name, value, has = strings.Cut(f, " ")
		}
		if !strings.HasPrefix(name, "-") || strings.Contains(name, " ") ||
			has && (value == "" || strings.HasPrefix(value, "<") && !slices.Contains(kinds, value)) {
			return fmt.Errorf("flags: %q: write -x, --name, --name=value, --name=<kind> or '--name <kind>', with one of %s", f,
				strings.Join(kinds, " "))
		}
	}
	return nil
}

// Any reports whether there is a rule that could let something run.
func (r *Set) Any() bool { return r != nil && len(r.ask)+len(r.auto) > 0 }

// Judge says what the rules say of c: deny, then ask, then auto, and deny for
// what no rule names.
func (r *Set) Judge(c *hostexec.Command) policy.Verdict {
	if why := never(c); why != "" {
		return policy.Verdict{Rule: "built in", Reason: why}
	}
	line := hostexec.Line(c.Argv)
	// In single quotes, where YAML takes a backslash as it is.
	hint := "in config.yaml: hostexec: {manual_approve: [{pattern: '^" +
		strings.ReplaceAll(regexp.QuoteMeta(line), "'", "''") + "$'}]}"
	if r == nil {
		return policy.Verdict{Reason: "no rule names this command", Hints: []string{hint}}
	}
	for _, d := range r.deny {
		if m, _ := d.match(c, line); m != no {
			return d.verdict(policy.Deny, "")
		}
	}
	for _, a := range r.ask {
		if m, _ := a.match(c, line); m == yes {
			return a.verdict(policy.Ask, "")
		}
	}
	for _, a := range r.auto {
		m, why := a.match(c, line)
		if m == yes {
			why = risky(c)
			if why == "" {
				return a.verdict(policy.Allow, "")
			}
		}
		if m != no {
			return a.verdict(policy.Ask, why)
		}
	}
	return policy.Verdict{Reason: "no rule names this command", Hints: []string{hint}}
}

// matched is how a rule fits: not, fully, or but for something unknown.
type matched uint8

const (
	no matched = iota
	yes
	unknown
)

func (r *rule) match(c *hostexec.Command, line string) (matched, string) {
	if r.re != nil {
		if r.re.MatchString(line) {
			return yes, ""
		}
		return no, ""
	}
	return r.matchTyped(c)
}

func (r *rule) matchTyped(c *hostexec.Command) (matched, string) {
	if filepath.IsAbs(r.Program) {
		if c.Program != r.Program && c.Real != r.Program {
			return no, ""
		}
	} else if c.Argv[0] != r.Program {
		return no, ""
	}
	var words []string
	odd := ""
	for i := 1; i < len(c.Argv); i++ {
		a := c.Argv[i]
		switch {
		case a != "--" && (len(a) < 2 || a[0] != '-'):
			words = append(words, a)
		case r.takes(a) != "":
			i++
			if i == len(c.Argv) || strings.HasPrefix(c.Argv[i], "-") || r.takes(a) != c.Argv[i] && !fits(r.takes(a), c.Argv[i]) {
				odd = fmt.Sprintf("argument %d is not what its flag %s may be given", i, a)
			}
		case !r.flag(a):
			odd = fmt.Sprintf("argument %d is a flag that it does not name", i)
		}
	}
	if !r.words(words) {
		return no, ""
	}
	if odd != "" {
		return unknown, odd
	}
	return yes, ""
}

// takes is the kind of the word behind a flag, where its rule says that it has one.
func (r *rule) takes(a string) string {
	for _, f := range r.Flags {
		if name, kind, two := strings.Cut(f, " "); two && name == a {
			return kind
		}
	}
	return ""
}

func (r *rule) flag(a string) bool {
	name, value, has := strings.Cut(a, "=")
	for _, f := range r.Flags {
		known, kind, wants := strings.Cut(f, "=")
		if known == name && has == wants && (!has || kind == value || fits(kind, value)) {
			return true
		}
	}
	return false
}

func (r *rule) words(words []string) bool {
	args, again := r.Args, ""
	if n := len(args); n > 0 && args[n-1] == "..." {
		again, args = args[n-2], args[:n-1]
	}
	if len(words) < len(args) || again == "" && len(words) > len(args) {
		return false
	}
	for i, w := range words {
		want := again
		if i < len(args) {
			want = args[i]
		}
		if want != w && !(strings.HasPrefix(want, "<") && fits(want, w)) {
			return false
		}
	}
	return true
}

// Compiled when first asked for: every start of cloister would pay otherwise.
var (
	refName     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[A-Za-z0-9_][A-Za-z0-9_./-]*\z`) })
	packageName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`\A(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9^~][A-Za-z0-9._+^~-]*)?\z`)
	})
)

// fits reports whether a word is of a kind.
func fits(kind, w string) bool {
	switch kind {
	case "<any>":
		return true
	case "<ref>":
		return refName().MatchString(w) && !strings.Contains(w, "..") && !strings.Contains(w, "//") &&
			!strings.HasSuffix(w, ".lock")
	case "<package>":
		return packageName().MatchString(w)
	case "<path>":
		return w != "" && !filepath.IsAbs(w) && filepath.IsLocal(w)
	}
	return false
}
