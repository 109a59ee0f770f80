package hostexec_test

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"cloister/hostexec"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"npm", "install"}, "npm install"},
		{[]string{"npm", "install left-pad"}, "npm 'install left-pad'"},
		{[]string{"echo", ""}, "echo ''"},
		{[]string{"echo", "it's"}, `echo 'it'\''s'`},
		{[]string{"echo", ";", "$(id)", "a\nb"}, "echo ';' '$(id)' 'a\nb'"},
		{[]string{"git", "log", "--format=%H"}, "git log --format=%H"},
	} {
		if got := hostexec.Line(c.argv); got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
	}
}

func TestGrantsTellCommandsApart(t *testing.T) {
	seen := map[string]int{}
	for i, c := range []hostexec.Command{
		{Argv: []string{"a", "b c"}},
		{Argv: []string{"a", "b", "c"}},
		{Argv: []string{"a", "b\xff"}},
		{Argv: []string{"a", "b\xfe"}},
		{Argv: []string{"a", "b\ufffd"}},
		{Argv: []string{"a"}, Dir: "/x"},
		{Argv: []string{"a"}, Dir: "/y"},
		{Argv: []string{"a"}, Sum: "1"},
		{Argv: []string{"a"}, Inode: "1"},
		{Argv: []string{"a"}, Program: "/p"},
		{Argv: []string{"a"}, Real: "/p"},
		{Argv: []string{"a"}, Env: []string{"X=1"}},
		{Argv: []string{"a"}, Operands: []hostexec.Operand{{Arg: 1, Path: "x", Sum: "1"}}},
		{Argv: []string{"a"}, Operands: []hostexec.Operand{{Arg: 1, Path: "x", Sum: "2"}}},
	} {
		g := c.Grant()
		if other, twice := seen[g]; twice || !strings.HasPrefix(g, "sha256:") {
			t.Errorf("commands %d and %d have the grant %q", other, i, g)
		}
		seen[g] = i
		if c.Digest("s", "p", "q", "n") == c.Digest("s", "p", "q", "m") || c.Digest("s", "p", "q", "n") == g {
			t.Errorf("command %d: the digest does not hold the nonce", i)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"argv":["bHM="],"dir":"Lw=="}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		req, err := hostexec.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err == nil && !bytes.Contains(text, []byte("\n")) {
			t.Fatalf("%+v of half a request", req)
		}
	})
}
