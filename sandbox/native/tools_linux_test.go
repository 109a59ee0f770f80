package native_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// tool is one line of docs/tools.md: a script that ends with 0 where the tool works.
type tool struct {
	name, needs string
	works       bool
	script      string
}

const program = `printf '%s\n' '#include <stdlib.h>' '#include <string.h>' 'int main(int n, char **v) {' \
	'if (n > 1 && !strcmp(v[1], "leak")) { char *volatile p = malloc(77); p[0] = 1; p = 0; }' \
	'if (n > 1 && !strcmp(v[1], "over")) { char *volatile p = malloc(4); p[4] = 1; }' 'return 0; }' > tool.c; `

func tools() []tool {
	return []tool{
		{"gdb", "gcc gdb", true, program + `gcc -g -o tool tool.c && gdb -batch -ex 'break main' -ex run -ex bt ./tool | grep -q '#0 .*main'`},
		{"gdb, attached to a process", "gdb", true, `sleep 60 & gdb -batch -p $! -ex bt | grep -q sleep; r=$?; kill $!; exit $r`},
		{"strace", "strace", true, `strace -f -o out sh -c 'ls / >/dev/null' && grep -q execve out`},
		{"ltrace", "ltrace gcc", true, program + `gcc -o tool tool.c && ltrace -o out ./tool leak && grep -q malloc out`},
		{"AddressSanitizer", "gcc", true, program + `gcc -fsanitize=address -o tool tool.c && ! ./tool over 2> out && grep -q heap-buffer-overflow out`},
		{"LeakSanitizer", "gcc", true, program + `gcc -fsanitize=address -o tool tool.c && ! ./tool leak 2> out && grep -q 'LeakSanitizer: detected' out`},
		{"ThreadSanitizer", "gcc", true, program + `gcc -fsanitize=thread -o tool tool.c && ./tool`},
		{"UndefinedBehaviorSanitizer", "gcc", true, program + `gcc -fsanitize=undefined -o tool tool.c && ./tool`},
		{"valgrind", "valgrind gcc", true, program + `gcc -o tool tool.c && ! valgrind -q --leak-check=full --error-exitcode=9 ./tool leak 2> out && grep -q 'lost' out`},
		{"node", "node", true, `test "$(node -e 'console.log(6*7)')" = 42`},
		{"chromium", "chromium", true, `chromium --headless --disable-gpu --dump-dom 'data:text/html,<p>works' | grep -q works`},
		{"perf", "perf", false, `perf stat -e task-clock true`},
		{"unshare", "unshare", false, `unshare -Ur true`},
		{"bwrap", "bwrap", false, `bwrap --ro-bind / / --unshare-all true`},
	}
}

// TestTools holds docs/tools.md to what the tools of this machine do inside.
func TestTools(t *testing.T) {
	text, err := os.ReadFile("../../docs/tools.md")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // this program also runs where no documents are
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| (works|does not) \|`).FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = row[2]
	}
	for _, tool := range tools() {
		if word := map[bool]string{true: "works", false: "does not"}[tool.works]; err == nil && documented[tool.name] != word {
			t.Errorf("docs/tools.md says of %s %q, and it %s", tool.name, documented[tool.name], word)
		}
		delete(documented, tool.name)
		if missing := lacking(tool.needs); missing != "" {
			t.Logf("%s: this machine has no %s", tool.name, missing)
			continue
		}
		h := sandboxtest.New(t, native.New("test"))
		out := h.Run(t, sandboxtest.Options{}, "sh", "-c", tool.script)
		if works := out.Status.ExitCode() == 0; out.Err != nil || works != tool.works {
			t.Errorf("%s works: %t, %+v", tool.name, works, out)
		}
	}
	for name := range documented {
		t.Errorf("docs/tools.md names %s, which no test runs", name)
	}
}

// lacking is the first of the programs that is not in a system folder.
func lacking(programs string) string {
	for name := range strings.FieldsSeq(programs) {
		at, err := exec.LookPath(name)
		if err != nil || !strings.HasPrefix(at, "/usr/bin/") && !strings.HasPrefix(at, "/bin/") {
			return name
		}
	}
	return ""
}
