package pathglob_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"cloister/internal/pathglob"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, folder string
		yes, no         string // paths
	}{
		{"*.pem", "/p", "/p/a.pem /p/x/y/b.pem /p/.pem /p/dir.pem/below", "/p/a.pem2 /q/a.pem /p /p/a.pe /a.pem"},
		{"**/secrets/*", "/p", "/p/secrets/a /p/x/y/secrets/b/c", "/p/secrets /p/asecrets/b /secrets/a"},
		{"a/*.key", "/p", "/p/a/x.key", "/p/x.key /p/b/a/x.key"},
		{"/srv/**/k?y", "/p", "/srv/key /srv/a/b/kéy /srv/a/key/x", "/srv/ky /srv/keey /p/srv/key"},
		{"*a*b*c*", "/p", "/p/abc /p/xaxbxcx", "/p/acb /p/ab"},
		{"**/a/**/b", "/p", "/p/a/b /p/x/a/y/z/b /p/a/a/b/b", "/p/b/a /p/a"},
		{"*", "/p", "/p/a /p/b/c", "/p /q/a"},
		{"[a].pem", "/p", "/p/[a].pem", "/p/a.pem"},
		{"*.pem", "/a*b/**", "/a*b/**/x.pem", "/axb/c/x.pem /a*b/x.pem"},
	} {
		p, err := pathglob.Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		p = p.In(c.folder)
		for at := range strings.FieldsSeq(c.yes) {
			if !p.Match(at) {
				t.Errorf("%s in %s does not match %s", c.pattern, c.folder, at)
			}
		}
		for at := range strings.FieldsSeq(c.no) {
			if p.Match(at) {
				t.Errorf("%s in %s matches %s", c.pattern, c.folder, at)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("a/", 65) + "*"
	for _, text := range []string{"", "/", "..", "a/../*", "/*/x", "/**/x", "a**/b", "a/**", "**", "a\nb", "a\x00*", "\xff*", long, strings.Repeat("*", 1025)} {
		if _, err := pathglob.Parse(text); err == nil {
			t.Errorf("%.40q is taken", text)
		}
	}
}

func TestFolder(t *testing.T) {
	for text, want := range map[string]string{
		"/srv/a/*.pem": "/srv/a", "/srv/**/x": "/srv", "/srv/a": "/srv", "/srv/a?/b/c": "/srv", "*.pem": "/p", "a/b/*": "/p/a/b",
	} {
		p, err := pathglob.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.In("/p").Folder(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestGains(t *testing.T) {
	for _, c := range []struct {
		pattern, from, to string
		want              bool
	}{
		{"*.pem", "/p/a", "/p/b/c", false},
		{"*.pem", "/p/a", "/q/a", true},
		{"**/secrets/*", "/p/a", "/p/b", false},
		{"**/secrets/*", "/p/a/secrets", "/p/a/other", true},
		{"**/secrets/*", "/p/a/other", "/p/a/secrets", false},
		{"**/secrets/*", "/p/secrets/in", "/p/in", true},
		{"a/*.key", "/p/a", "/p/b", true},
		{"a/*.key", "/p/a/deep", "/p/deep", false},
		{"a/b/*.key", "/p/a", "/p/c", true},
		{"a/b/*.key", "/p", "/q", true},
	} {
		p, err := pathglob.Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.In("/p").Gains(c.from, c.to); got != c.want {
			t.Errorf("%s: from %s to %s: %v", c.pattern, c.from, c.to, got)
		}
	}
}

// A pattern and a name that make a matcher go back everywhere take no longer than both are long. The
// control is a matcher that takes each * by itself, and does not come back.
func TestBombs(t *testing.T) {
	name := "/p/" + strings.Repeat("a", 4000)
	deep := "/p" + strings.Repeat("/a", 2000)
	for _, c := range []struct{ pattern, path string }{
		{strings.Repeat("*a", 500) + "b", name},
		{strings.Repeat("**/a/", 30) + "b", deep},
		{strings.Repeat("**/*a*/", 30) + "b", deep},
	} {
		p, err := pathglob.Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		p = p.In("/p")
		began := time.Now()
		if p.Match(c.path) {
			t.Errorf("%.20s matches", c.pattern)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%.20s took %v", c.pattern, took)
		}
	}
}

// FuzzMatch compares with a regular expression.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{{"*.pem", "x/a.pem"}, {"**/s/*", "a/s/b/c"}, {"a?c/**/d*", "abc/x/y/dd"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, rel string) {
		p, err := pathglob.Parse(pattern)
		if err != nil || p.Whole() || rel == "" || strings.ContainsAny(rel, "\x00\n") || strings.ToValidUTF8(rel, "") != rel {
			return
		}
		for name := range strings.SplitSeq(rel, "/") {
			if name == "" || name == "." || name == ".." {
				return
			}
		}
		var expr strings.Builder
		expr.WriteString("^/p/")
		var parts []string
		for part := range strings.SplitSeq(pattern, "/") {
			if part != "" && part != "." {
				parts = append(parts, part)
			}
		}
		if len(parts) == 1 {
			parts = []string{"**", parts[0]}
		}
		for i, part := range parts {
			if part == "**" {
				expr.WriteString("([^/]+/)*")
				continue
			}
			for _, r := range part {
				switch r {
				case '*':
					expr.WriteString("[^/]*")
				case '?':
					expr.WriteString("[^/]")
				default:
					expr.WriteString(regexp.QuoteMeta(string(r)))
				}
			}
			if i < len(parts)-1 {
				expr.WriteString("/")
			}
		}
		expr.WriteString("(/.*)?$")
		want := regexp.MustCompile("(?s)" + expr.String()).MatchString("/p/" + rel)
		if got := p.In("/p").Match("/p/" + rel); got != want {
			t.Errorf("%q and %q: %v, want %v", pattern, rel, got, want)
		}
	})
}
