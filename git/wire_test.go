package git

import (
	"bufio"
	"strings"
	"testing"
)

func TestReadCommands(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	line := func(s string) string {
		var out strings.Builder
		if err := packet(&out, s); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for text, want := range map[string]string{
		"": "", "0000": "",
		line(a+" "+b+" refs/heads/main\x00 report-status side-band-64k") + "0000": "refs/heads/main",
		line(a + " " + b + " refs/heads/main\n"):                                  "!EOF",
		line(a+" "+b+" refs/heads/main") + line(b+" "+a+" refs/heads/main"):       "!twice",
		line(a + " " + a + " refs/heads/main"):                                    "!no update",
		line(a + " refs/heads/main"):                                              "!no update",
		line(a + " " + b + " HEAD"):                                               "!no branch",
		line(a + " " + b + " refs/heads/../x"):                                    "!no branch",
		line(a + " " + b + " refs/heads/-x"):                                      "!no branch",
		line(a + " " + b + " refs/heads/x y"):                                     "!no branch",
		line(a + " " + b + " refs/heads/x\x1b[31m"):                               "!no branch",
		line(a + " " + b + " refs/remotes/x/y"):                                   "!no branch",
		line(a + " " + b + " refs/heads/x.lock"):                                  "!no branch",
		line("shallow " + a):                                                      "!shallow",
		"zzzz":                                                                    "!length",
		"0001":                                                                    "!length",
		"fffff":                                                                   "!length",
	} {
		c, err := readCommands(bufio.NewReader(strings.NewReader(text)))
		switch word, bad := strings.CutPrefix(want, "!"); {
		case bad && (err == nil || !strings.Contains(err.Error(), word)):
			t.Errorf("%q: %v, want %q", text, err, word)
		case !bad && (err != nil || want != "" && (len(c.updates) != 1 || c.updates[0].Ref != want || !c.sideband || !c.status)):
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	many := ""
	for i := range MaxUpdates + 1 {
		many += line(a + " " + b + " refs/heads/x" + strings.Repeat("y", i))
	}
	if _, err := readCommands(bufio.NewReader(strings.NewReader(many + "0000"))); err == nil {
		t.Error("too many updates passed")
	}
}

func FuzzReadCommands(f *testing.F) {
	f.Add([]byte("0000"))
	f.Add([]byte("006a" + strings.Repeat("a", 40) + " " + strings.Repeat("b", 40) + " refs/heads/main\x00 atomic\n0000"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readCommands(bufio.NewReaderSize(strings.NewReader(string(text)), maxPacket))
		if err != nil {
			return
		}
		for _, u := range c.updates {
			if !plainRef(u.Ref) || !isName(u.Old) || !isName(u.New) || strings.ContainsAny(u.Ref, " :\n\x00*") || strings.HasPrefix(u.Ref, "-") {
				t.Fatalf("%+v", u)
			}
		}
	})
}
