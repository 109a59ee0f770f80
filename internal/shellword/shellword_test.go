package shellword_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"cloister/internal/shellword"
)

func TestAShellReadsTheSameWords(t *testing.T) {
	argv := []string{"a", "", "two words", "it's", `"$(id)"`, "a;b", "~", "*", "line\nend", `back\slash`, "ü"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\0' "+shellword.Line(argv...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, argv) {
		t.Errorf("a shell reads %q, not %q", got, argv)
	}
	if got := shellword.Line("gh", "auth", "token"); got != "gh auth token" {
		t.Errorf("plain words became %s", got)
	}
}
