package git

import (
	"fmt"
	"slices"
	"strconv"

	"cloister/internal/termsafe"
)

// Shown is what a person looks at, in labelled lines. Foreign text is quoted.
func (p *Push) Shown() [][2]string {
	out := [][2]string{{"to", termsafe.Quote(p.Remote.URL)}}
	for i := range p.Updates {
		out = append(out, p.Updates[i].shown()...)
	}
	return out
}

func (u *Update) shown() [][2]string {
	out := [][2]string{{"branch", termsafe.Quote(u.Branch()) + " " + u.summary()}}
	if u.Force {
		out = append(out, [2]string{"FORCE", plural(u.Lost, "commit") + " of the remote lost"})
	}
	for i, c := range u.Commits {
		out = append(out, [2]string{fmt.Sprintf("commit %d", i+1),
			fmt.Sprintf("%s %s by %s on %s", c.ID[:min(12, len(c.ID))], termsafe.Quote(c.Subject), termsafe.Quote(c.Author),
				termsafe.Text(c.Date))})
	}
	if more := u.Fresh - len(u.Commits); more > 0 {
		out = append(out, [2]string{"and", plural(more, "more commit") + ", not shown"})
	}
	if u.New != zero {
		out = append(out, [2]string{"changes",
			fmt.Sprintf("%s, %s added, %d removed", plural(u.Changed, "file"), plural(u.Plus, "line"), u.Minus)})
	}
	for _, f := range u.Files {
		what := fmt.Sprintf("+%d -%d", f.Plus, f.Minus)
		if f.Plus < 0 {
			what = "not text"
		}
		if f.Kind != "" {
			what += ", " + f.Kind
		}
		out = append(out, [2]string{"file", termsafe.Quote(f.Path) + " " + what})
	}
	if more := u.Changed - len(u.Files); more > 0 {
		out = append(out, [2]string{"and", plural(more, "more file") + ", not shown"})
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// Brief is an update in a few words.
func (u *Update) Brief() string {
	switch {
	case u.New == zero:
		return "DELETE " + u.Branch()
	case u.Force:
		return "FORCE " + u.Branch() + ", " + plural(u.Lost, "commit") + " lost"
	}
	return u.Branch() + ", " + plural(u.Fresh, "commit")
}

// summary is from what to what.
func (u *Update) summary() string {
	switch {
	case u.New == zero:
		return "is deleted (was " + u.Old + ")"
	case u.Old == zero:
		return fmt.Sprintf("is new: %s (%s)", u.New, plural(u.Fresh, "commit"))
	}
	return fmt.Sprintf("%s to %s (%s)", u.Old, u.New, plural(u.Fresh, "commit"))
}

// Marks says what in it could fool an eye. Names and subjects in other letters
// than ASCII are nothing odd; what no one can see is.
func (p *Push) Marks() string {
	for i := range p.Updates {
		u := &p.Updates[i]
		for _, s := range []string{p.Remote.URL, u.Ref} {
			if m := termsafe.Marks(s); m != "" {
				return m
			}
		}
		var texts []string
		for _, c := range u.Commits {
			texts = append(texts, c.Subject, c.Author)
		}
		for _, f := range u.Files {
			texts = append(texts, f.Path)
		}
		if slices.ContainsFunc(texts, termsafe.Hidden) {
			return "characters that cannot be seen or are not text"
		}
	}
	return ""
}
