package features

import (
	"strings"
	"testing"
)

func TestOrder(t *testing.T) {
	feature := func(id string, declared map[string]any) Feature { return Feature{ID: id, Declared: declared} }
	after := func(ids ...any) map[string]any { return map[string]any{"installsAfter": ids} }
	for _, tt := range []struct {
		name     string
		list     []Feature
		override []string
		want     string
	}{
		{"by name", []Feature{feature("./b", nil), feature("./a", nil)}, nil, "./a ./b"},
		{"after another", []Feature{feature("./a", after("./b")), feature("./b", nil)}, nil, "./b ./a"},
		{"after one that is not there", []Feature{feature("./a", after("./b"))}, nil, "./a"},
		{"one that needs another", []Feature{feature("./a", map[string]any{"dependsOn": map[string]any{"./b": map[string]any{}}}), feature("./b", nil)}, nil, "./b ./a"},
		{"by the devcontainer's word", []Feature{feature("./a", nil), feature("./b", nil), feature("./c", nil)}, []string{"./c", "./b"}, "./c ./b ./a"},
		{"by names without versions", []Feature{
			feature("r.example.com/a:1", after("r.example.com/b")), feature("r.example.com/b:2", nil),
		}, nil, "r.example.com/b:2 r.example.com/a:1"},
		{"by an older name", []Feature{
			feature("r.example.com/a:1", after("r.example.com/old:1")),
			feature("r.example.com/b:2", map[string]any{"legacyIds": []any{"old"}}),
		}, nil, "r.example.com/b:2 r.example.com/a:1"},
		{"first by the devcontainer's word, without a version", []Feature{feature("r.example.com/a:1", nil), feature("r.example.com/b:2", nil)},
			[]string{"r.example.com/b"}, "r.example.com/b:2 r.example.com/a:1"},
		{"in a circle", []Feature{feature("./a", after("./b")), feature("./b", after("./a"))}, nil, "features wait for each other: ./a, ./b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := Order(tt.list, tt.override)
			var got []string
			for _, f := range list {
				got = append(got, f.ID)
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

func TestDefinition(t *testing.T) {
	f := Feature{
		ID: "./f", Files: []File{{Name: "install.sh"}}, Options: map[string]any{"my-option": "it's", "2nd": true},
		Declared: map[string]any{"options": map[string]any{"version": map[string]any{"default": "latest"}}},
		Env:      map[string]string{"F": `say "$PATH"`},
	}
	got, err := Definition("a", []Feature{f})
	const want = `FROM a
USER root
ENV F="say \"$PATH\""
COPY feature-0 /tmp/.cloister-features/feature-0
RUN cd /tmp/.cloister-features/feature-0 && chmod +x install.sh && env _REMOTE_USER=root _REMOTE_USER_HOME=/root _CONTAINER_USER=root _CONTAINER_USER_HOME=/root _ND=true 'MY_OPTION=it'\''s' VERSION=latest ./install.sh && rm -rf /tmp/.cloister-features/feature-0
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	f.Options = "a\nRUN evil"
	if _, err := Definition("a", []Feature{f}); err == nil {
		t.Error("an option of two lines is a line of the definition")
	}
	f.Options, f.Env = nil, map[string]string{"A x\nFROM evil.example.com/x\nENV B": "c"}
	if text, err := Definition("a", []Feature{f}); err == nil {
		t.Errorf("a variable's name is a line of the definition:\n%s", text)
	}
	if _, err := Definition("a", []Feature{{ID: "./f"}}); err == nil {
		t.Error("a feature without install.sh is installed")
	}
}
