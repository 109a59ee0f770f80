package realtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// noise is text that hardly compresses, as much as a package's files have.
func noise(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n*3/4)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// What a day fetches.
const (
	dayPackages = 150 // of npm
	dayWheels   = 15
	dayModules  = 40
	dayEvents   = 200
	dayRounds   = 7
)

const answersHost = "answers.example.com"

// day serves what an agent fetches on a working day: a registry of npm, a repository, an
// index of Python, a proxy of Go modules, and answers that stream.
func day(t *testing.T, w *world) {
	t.Helper()
	npm := &static{}
	wants := map[string]any{}
	for i := range dayPackages {
		name := fmt.Sprintf("part-%03d", i)
		npmPackage(t, npm, name, "1.0.0", map[string]any{}, map[string]string{
			"index.js": "module.exports = " + strconv.Itoa(i) + "\n", "data.txt": noise(t, 20<<10),
		})
		wants[name] = "^1.0.0"
	}
	npmPackage(t, npm, "all-parts", "1.0.0", map[string]any{"dependencies": wants}, map[string]string{"index.js": "\n"})
	w.net.handle(npmHost, npm)
	w.write(w.project, "package.json", `{"name":"app","version":"1.0.0","license":"MIT","dependencies":{"all-parts":"^1.0.0"}}`+"\n")

	root := w.gitServer()
	w.net.handle("git.example.com", &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(w.host("git", "--exec-path")), "git-http-backend"), Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.home, "PATH=" + w.env["PATH"]},
	})

	index := &static{}
	var wheels strings.Builder
	for i := range dayWheels {
		name := fmt.Sprintf("piece%02d", i)
		file := name + "-1.0.0-py3-none-any.whl"
		body := wheel(t, name, "1.0.0", nil, map[string]string{
			name + ".py": "x = 1\n", name + "_data.py": "y = '" + noise(t, 100<<10) + "'\n",
		})
		sum := sha256.Sum256(body)
		index.add("/simple/"+name+"/", "text/html", fmt.Appendf(nil,
			"<!DOCTYPE html><html><body><a href=\"/files/%s#sha256=%s\">%s</a></body></html>", file, hex.EncodeToString(sum[:]), file))
		index.add("/files/"+file, "application/zip", body)
		wheels.WriteString(" " + name)
	}
	w.net.handle(pyHost, index)
	w.write(w.project, "wheels", wheels.String())

	modules := &static{}
	mod := "module example.org/app\n\ngo 1.21\n\nrequire (\n"
	for i := range dayModules {
		name := fmt.Sprintf("example.org/m%02d", i)
		goModule(t, modules, name, "v1.0.0", map[string]string{
			"go.mod": "module " + name + "\n\ngo 1.21\n", "m.go": "package m\n\nconst Text = `" + noise(t, 50<<10) + "`\n",
		})
		mod += "\t" + name + " v1.0.0\n"
	}
	w.net.handle(goHost, modules)
	w.write(w.project, "go.mod", mod+")\n")

	w.net.handle(answersHost, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(rw)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := range dayEvents {
			<-tick.C
			fmt.Fprintf(rw, "event: content_block_delta\ndata: {\"index\":%d,"+
				"\"delta\":{\"type\":\"text_delta\",\"text\":\"word and word\"}}\n\n", i)
			if flush.Flush() != nil {
				return
			}
		}
	}))
}

// dayScript does the tasks of a day and prints the milliseconds of each. Nothing is kept
// from the last time.
const dayScript = `
rm -rf /tmp/day node_modules package-lock.json && mkdir /tmp/day
timed() {
	name=$1; shift; began=$(date +%s%N)
	"$@" >/tmp/day/out 2>&1 || { cat /tmp/day/out >&2; exit 1; }
	echo "$name $(( ($(date +%s%N) - began) / 1000000 ))"
}
timed "npm install" npm install --cache /tmp/day/npm
timed "git clone" git clone -q https://git.example.com/library.git /tmp/day/cloned
timed "pip install" python3 -m pip install --disable-pip-version-check --no-cache-dir --quiet --target /tmp/day/lib \
	--index-url https://pypi.example.com/simple/ $(cat wheels)
timed "go mod download" env GOMODCACHE=/tmp/day/go GOFLAGS=-modcacherw go mod download
timed "a streamed answer" curl -sSN -o /tmp/day/answer https://answers.example.com/v1/messages
grep -c '^data: ' /tmp/day/answer >&2
`

// TestWorkingDay measures what opening by default costs an agent's day, against tls: tunnel
// in the same run, and writes the rows of docs/working-day.md.
func TestWorkingDay(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("minutes: CLOISTER_TEST_LONG=1")
	}
	w := newWorld(t)
	for _, program := range []string{"npm", "node", "curl", "python3"} {
		need(t, program, program)
	}
	need(t, "pip", "/usr/bin/pip3")
	w.env["PATH"] = filepath.Dir(need(t, "go", "go")) + ":" + w.env["PATH"]
	day(t, w)
	w.args = []string{
		"-e", "npm_config_registry=https://" + npmHost + "/", "-e", "npm_config_audit=false", "-e", "npm_config_fund=false",
		"-e", "GOPROXY=https://" + goHost, "-e", "GONOSUMDB=*", "-e", "GOTOOLCHAIN=local",
	}
	tasks := []string{"npm install", "git clone", "pip install", "go mod download", "a streamed answer"}
	took := map[string]map[string][]int{}
	for round := range dayRounds + 1 {
		modes := []string{"opened", "tunnelled"}
		if round%2 == 1 {
			slices.Reverse(modes)
		}
		for _, mode := range modes {
			w.rules = map[string][]string{}
			if mode == "tunnelled" {
				for _, host := range []string{npmHost, "git.example.com", pyHost, goHost, answersHost} {
					w.rules[host] = []string{"{domain: " + host + ", tls: tunnel}"}
				}
			}
			if w.ran {
				w.reload()
			}
			res := w.script(dayScript)
			if !strings.Contains(res.stderr, strconv.Itoa(dayEvents)) {
				t.Errorf("the answer did not come whole: %s", res.stderr)
			}
			if round == 0 {
				continue // what is cold
			}
			if took[mode] == nil {
				took[mode] = map[string][]int{}
			}
			for line := range strings.Lines(res.stdout) {
				at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
				ms, err := strconv.Atoi(strings.TrimSpace(line[max(at, 0):]))
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				took[mode][line[:at]] = append(took[mode][line[:at]], ms)
			}
		}
	}
	opened := 0
	for _, e := range w.requests(200) {
		if e.Host == npmHost {
			opened++
		}
	}
	if opened < dayPackages {
		t.Errorf("only %d requests to the registry were opened", opened)
	}
	var rows strings.Builder
	median := func(list []int) int { slices.Sort(list); return list[len(list)/2] }
	for _, task := range tasks {
		o, c := took["opened"][task], took["tunnelled"][task]
		if len(o) != dayRounds || len(c) != dayRounds {
			t.Fatalf("%s: %v, %v", task, o, c)
		}
		fmt.Fprintf(&rows, "| %s | %d (%d–%d) | %d (%d–%d) | %.2f |\n", task, median(o), o[0], o[len(o)-1],
			median(c), c[0], c[len(c)-1], float64(median(o))/float64(median(c)))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(&rows, "\n%s, %d cores, load %.5s, %d rounds in turn.\n", time.Now().UTC().Format("2 Jan 2006"), runtime.NumCPU(), load, dayRounds)
	t.Log("\n" + rows.String())
	keepRows(t, "../../../docs/working-day.md", rows.String())
}

// keepRows puts rows between the marks of a document, where CLOISTER_KEEP is set.
func keepRows(t *testing.T, doc, rows string) {
	t.Helper()
	if os.Getenv("CLOISTER_KEEP") == "" {
		return
	}
	const begin, end = "<!-- rows -->\n", "<!-- end of rows -->"
	head, rest, ok := strings.Cut(read(t, doc), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no marks for its rows", doc)
	}
	write(t, doc, head+begin+rows+end+tail, 0o644)
}
