package launch_test

import (
	"slices"
	"strings"
	"testing"

	"cloister/api"
	"cloister/config"
	"cloister/policy"
	"cloister/sandbox/judge"
	"cloister/session/launch"
)

const (
	noRead   = `@id("no-read") forbid (principal, action == Action::"FileOpen", resource == File::"/w/secret");` + "\n"
	noWrite  = `@id("no-write") forbid (principal, action == Action::"FileOpenReadWrite", resource == File::"/w/plain");` + "\n"
	noExec   = `@id("no-exec") forbid (principal, action == Action::"ProcessExec", resource in Dir::"/w/tools/");` + "\n"
	onlyRun  = `@id("run") permit (principal, action == Action::"ProcessExec", resource == File::"/bin/sh");` + "\n"
	askDir   = `@id("d") @ask permit (principal, action == Action::"FileOpen", resource in Dir::"/w/some");` + "\n"
	askOther = `@id("o") @ask permit (principal, action == Action::"FileOpen", resource in Dir::"/w/other");` + "\n"
	askRead  = `@id("asks") @ask("a person") permit (principal, action == Action::"FileOpen", resource == File::"/w/secret");` + "\n"
)

// unnamed takes the @id away.
func unnamed(text string) string { return text[strings.Index(text, ")")+2:] }

// A running session takes newer statements whole, or none of them and says why.
func TestRestate(t *testing.T) {
	f := facts(t, config.Default())
	f.Isolation = "native"
	for name, c := range map[string]struct {
		begun, next string
		own         string // --policy of the session
		accept      []string
		unjudged    bool // the kernel judges nothing here
		judged      []string
		same        bool
		says        string
	}{
		"nothing changed":              {begun: noRead, next: noRead, same: true},
		"a comment":                    {begun: noRead, next: "// more\n" + noRead, same: true},
		"a statement more":             {begun: noRead, next: noRead + noExec, judged: []string{"covered /w/secret", "/w/tools"}},
		"a hidden file more":           {begun: noExec, next: noExec + noRead, judged: []string{"/w/tools", "/w/secret"}},
		"one less, that none covers":   {begun: noRead + noExec, next: noRead, judged: []string{"covered /w/secret"}},
		"a list":                       {begun: noExec, next: noExec + onlyRun, judged: []string{"/w/tools"}},
		"more than read-only":          {begun: noWrite, next: noWrite + strings.ReplaceAll(noRead, "secret", "plain"), judged: []string{"covered /w/plain", "covered /w/plain"}},
		"its own words stay":           {begun: noExec, own: noRead, next: noWrite, judged: []string{"/w/plain", "covered /w/secret"}},
		"what is covered taken back":   {begun: noRead, next: noExec, says: "/w/secret stays closed in its view, by no-read: start it anew"},
		"what is covered made less":    {begun: noRead, next: strings.ReplaceAll(noWrite, "plain", "secret"), says: "/w/secret stays closed"},
		"what nothing keeps":           {begun: noExec, next: noExec + askRead, says: "nothing keeps asks at "},
		"what nothing keeps, accepted": {begun: noExec, next: noExec + askRead, accept: []string{"residue:policy:asks"}, same: true},
		"the word of a place, of another statement": {begun: unnamed(askDir), next: unnamed(askOther), accept: []string{"residue:policy:FILE.cedar#1"},
			says: "nothing keeps FILE.cedar#1 at "},
		"a list, by the word of a place": {begun: unnamed(askDir), next: unnamed(onlyRun), accept: []string{"residue:policy:FILE.cedar#1"},
			judged: []string{}},
		"the word of a place, of the same one": {begun: unnamed(askDir), next: "// moved\n\n" + unnamed(askDir) + noExec,
			accept: []string{"residue:policy:FILE.cedar#1"}, judged: []string{"/w/tools"}},
		"what is none":              {begun: noExec, next: "forbid (FileOpen", says: "FILE.cedar:1"},
		"no judge":                  {begun: noRead, next: noRead + noWrite, unjudged: true, says: "the kernel's judge does not rule it"},
		"no judge, and nothing new": {begun: noRead, next: noRead + "// more", unjudged: true, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := f
			f.Cedar = []policy.CedarFile{{Name: "FILE.cedar", Text: []byte(c.begun)}}
			o := launch.Order{Accept: []string{}}
			if c.own != "" {
				o.Cedar = []api.CedarFile{{Name: "own.cedar", Text: c.own}}
			}
			p, err := launch.Resolve(o, f)
			if err != nil {
				t.Fatal(err)
			}
			if p.Judge != nil {
				defer func() { _ = p.Judge.Close() }()
			}
			if p.Judge = nil; !c.unjudged {
				p.Judge = &judge.Kernel{}
				p.Judged, p.Watched.Rules = p.Watched.Rules, nil // as it would have been made
			}
			o.Accept = c.accept
			restate := p.Restater(o, f)
			next, put, err := restate([]api.CedarFile{{Name: "FILE.cedar", Text: c.next}})
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("it says %v, want %q", err, c.says)
				}
				return
			}
			if err != nil || (next == nil) != c.same {
				t.Fatalf("%+v, %v", next, err)
			}
			if c.same {
				return
			}
			var got []string
			for _, j := range next.Judged {
				text := string(j.Path)
				if j.Covered {
					text = "covered " + text
				}
				got = append(got, text)
			}
			slices.Sort(got)
			slices.Sort(c.judged)
			if !slices.Equal(got, c.judged) || next.Permits.Programs != strings.Contains(c.next, "/bin/sh") {
				t.Errorf("judged %q, permits %+v", got, next.Permits)
			}
			put()
			if again, _, err := restate([]api.CedarFile{{Name: "FILE.cedar", Text: c.next}}); again != nil || err != nil {
				t.Errorf("the same once more: %+v, %v", again, err)
			}
			if back, _, err := restate([]api.CedarFile{{Name: "FILE.cedar", Text: c.begun}}); back == nil || err != nil {
				t.Errorf("back: %+v, %v", back, err)
			}
		})
	}
}
