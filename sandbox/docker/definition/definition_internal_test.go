package definition

import (
	"errors"
	"strings"
	"testing"
)

func TestDefinitions(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a file of nobody's", "FROM a\nCOPY x /x\n", "d:2: there are no files beside the definition"},
		{"fetched by the engine", "FROM a\n# no\nADD \\\n https://x.example/ /x\n", "d:3: ADD is done by the engine itself"},
		{"a stage that is none", "FROM a AS one\nCOPY --from=two /x /x\n", "d:2: COPY --from=two is no stage"},
		{"a variable", "ARG x=a\nFROM $x\n", "d:2: FROM must name its image outright"},
		{"another machine", "FROM --platform=linux/s390x a\n", "d:1: FROM --platform=linux/s390x"},
		{"another syntax", "# syntax=x/y\nFROM a\n", "d:1: a build follows no other syntax"},
		{"steps of others", "FROM a\nONBUILD RUN x\n", "d:2: ONBUILD"},
		{"a word over two lines", "FROM a\nAD\\\nD https://x.example/ /x\n", "d:2: ADD is done by the engine itself"},
		{"after two backslashes", "FROM a\nRUN x \\\\\nADD https://x.example/ /x\n", "d:3: ADD is done by the engine itself"},
		{"an escape of its own", "# note\n# escape=`\nFROM a\nRUN x `\nADD https://x.example/ /x\n", "d:2: a build knows no other escape"},
		{"a text within", "FROM a\nRUN <<EOF\nADD https://x.example/ /x\nEOF\n", "d:2: a text within the definition"},
		{"a line of another kind", "FROM a\nRUN x\rADD https://x.example/ /x\n", "d:2: the line has a control character"},
		{"no image", "RUN from /x\n", "d:1: it begins with no image"},
		{"nothing at all", "", "d:1: it begins with no image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Read("d", []byte(tt.text), false, nil)
			if bad, ok := errors.AsType[*Bad](err); !ok || !strings.HasPrefix(err.Error(), tt.want) || len(bad.Hints()) == 0 {
				t.Errorf("%v, want %q and a hint", err, tt.want)
			}
		})
	}
}

// TestDefinitionAsRead: the engine gets one line for each instruction, in their places.
func TestDefinitionAsRead(t *testing.T) {
	text := "\ufeff# escape=\\\nFROM a \\\n # why\n\n  AS b\r\n\nRUN one \\  \n  two\\\n#no\nthree <<< x\nRUN last \\"
	_, got, err := Read("d", []byte(text), false, nil)
	if want := "#\nFROM a   AS b\n#\n#\n#\n#\nRUN one   twothree <<< x\n#\n#\n#\nRUN last\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%q\nwant\n%q", err, got, want)
	}
}

// TestDefinitionsWithFiles: beside files, COPY and ADD of them are known, and FROM may
// name an argument; what the engine would fetch is still refused.
func TestDefinitionsWithFiles(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an address", "FROM a\nADD https://x.example/x /x\n", "d:2: ADD of an address"},
		{"an address by an argument", "FROM a\nARG u\nADD $u /x\n", "d:3: ADD of an address"},
		{"a repository", "FROM a\nADD [\"git@x.example:y\", \"/x\"]\n", "d:2: ADD of an address"},
		{"an address in JSON's escapes", "FROM a\nADD [\"https:\\u002f/x.example/x\", \"/x\"]\n", "d:2: ADD of an address"},
		{"an address in a list with more after it", "FROM a\nADD [\"https:\\/\\/x.example/x\", \"/x\"] x\n", "d:2: the engine could read the name"},
		{"an address with quotes", "FROM a\nADD https:\"\"//x.example/x /x\n", "d:2: the engine could read the name"},
		{"an address with a backslash", "FROM a\nADD https:\\//x.example/x /x\n", "d:2: the engine could read the name"},
		{"an address with quotes in a list", "FROM a\nADD [\"https:''//x.example/x\", \"/x\"]\n", "d:2: the engine could read the name"},
		{"an image by a flag with quotes", "FROM a\nCOPY --f\"rom\"=b /x /x\n", "d:2: the engine could read the flag"},
		{"an image by a flag with a backslash", "FROM a\nCOPY --fr\\om=b /x /x\n", "d:2: the engine could read the flag"},
		{"an image by a byte that the engine takes for a space", "FROM a\nCOPY --chown=à--from=b /x /x\n", "d:2: the engine could read the flag"},
		{"an image", "FROM a\nCOPY --chown=1 --from=b /x /x\n", "d:2: COPY --from=b is no stage"},
		{"an argument without a value", "ARG x\nFROM a:$x\n", "d:2: FROM must name its image outright"},
		{"an argument of a stage", "FROM a\nARG x=1\nFROM a:$x\n", "d:3: FROM must name its image outright"},
		{"another syntax", "# syntax=x/y\nFROM a\n", "d:1: a build follows no other syntax"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := Read("d", []byte(tt.text), true, nil); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	text := "# syntax=docker/dockerfile:1\nARG TAG=12 NAME\nARG X=\"debian\"\nFROM ${X}:$TAG AS base\nCOPY --chown=1:1 a b /c/\nADD x.tar /\n" +
		"COPY [\"a file\", \"d\\u00e9j\\u00e0/\"]\n" +
		"FROM base\nCOPY --from=base /a /a\nFROM ${NONE:-alpine}:${NAME}\n"
	from, _, err := Read("d", []byte(text), true, map[string]string{"TAG": "13", "NAME": "3"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range from {
		names = append(names, o.Name)
	}
	if got := strings.Join(names, " "); got != "debian:13 base alpine:3" || !from[1].Stage || from[0].as != "base" {
		t.Errorf("begins with %s: %+v", got, from)
	}
}

// TestTrusting: each stage that has a system under it trusts what this host does.
func TestTrusting(t *testing.T) {
	text := []byte("# one\nFROM debian:12 \\\n # why\n AS first\nRUN x\nFROM first AS second\nFROM scratch AS third\nFROM third\nCOPY --from=first /x /x\nFROM a")
	from, text, err := Read("d", text, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	text = Begun(text, from[0], "sha256:0")
	const arg = "ARG A=" + trusted + " B=" + trusted + "\n"
	const file = "COPY " + AuthoritiesFile + " " + trusted + "\n"
	want := "#\nFROM sha256:0 AS first\n#\n#\n" + file + arg + "RUN x\nFROM first AS second\n" + arg +
		"FROM scratch AS third\nFROM third\nCOPY --from=first /x /x\nFROM a\n" + file + arg
	if got := string(Trusting(text, from, AuthoritiesFile, []string{"A", "B"})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
