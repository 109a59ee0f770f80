package main

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/cmd/cloister/machines"
	"cloister/devcontainer/featurestest"
	"cloister/git/checkout"
	claim "cloister/internal/needs"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the cloister that the stories run.
func TestMain(m *testing.M) {
	if code, is := machines.Inside(context.Background(), filepath.Base(os.Args[0]), os.Args[1:]); is {
		os.Exit(code) // a part of a machine
	}
	testscript.Main(m, map[string]func(){"cloister": storied, hostexecName: main, gitHelperName: main, insideName: main, checkout.Name: main})
}

// insideName is what the program is called in containers (sandbox/docker/inside).
const insideName = "cloister-inside"

// storyFlags are flags of every run and start of a story, by spaces.
const storyFlags = "STORY_FLAGS"

// storied is the cloister of a story: the very same, whose run and start are told
// what to build the enclosure of.
func storied() {
	at := slices.IndexFunc(os.Args, func(word string) bool { return word == "run" || word == "start" })
	if flags := strings.Fields(os.Getenv(storyFlags)); len(flags) > 0 && at == 1 {
		os.Args = slices.Insert(os.Args, at+1, flags...)
	}
	main()
}

// TestStories runs testdata/script: each is one person's machine, with its own
// home, project, XDG folders and guardian.
//
// Beside testscript's own commands there are
//
//	needs WORD...        skips where the machine lacks it, fails where it claims it
//	upstream NAME        an HTTP server on loopback; its address is $NAME, and
//	                     what it was asked stands in $WORK/NAME.asked, with
//	                     the headers whose names begin with X-
//	registry NAME [WORD] a registry on loopback at $NAME, its authority in $WORK/NAME.pem,
//	                     that wants WORD for a password from then on,
//	                     which has each folder of $WORK/features as team/FOLDER:1;
//	                     once more, it has them as they are now
//	audited REGEXP       the audit has a line that matches
//	! audited REGEXP     it has none
//	eventually N CMD...  repeats a command each 50 ms until it succeeds, at most N s
func TestStories(t *testing.T) {
	p := stories(t, false)
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// stories is how they are run, whichever they are. On the level of that name a line may
// begin with the condition [gvisor].
func stories(t *testing.T, onGVisor bool) testscript.Params {
	return testscript.Params{
		WorkdirRoot:         storyRoot(t),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUpStory,
		Condition:           func(word string) (bool, error) { return onGVisor && word == "gvisor", nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"needs":      needs,
			"upstream":   upstream,
			"registry":   serveRegistry,
			"audited":    audited,
			"eventually": eventually,
		},
	}
}

// storyRoot is where the stories lie. testscript's own would stay behind after
// one that failed, and t.TempDir cannot remove a folder that a story closed.
func storyRoot(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "stories")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return nil // a folder that cannot be read is opened when its parent is walked
		})
		if err := errors.Join(err, os.RemoveAll(root)); err != nil {
			t.Error(err)
		}
	})
	return root
}

func setUpStory(e *testscript.Env) error {
	why, err := unmet(strings.TrimPrefix(filepath.Base(e.WorkDir), "script-"))
	if err != nil {
		return err
	}
	if why != "" {
		e.T().Skip(why)
	}
	// Sockets have names of 107 bytes at most, and the folders of a story are
	// long already.
	e.Values[registries{}] = map[string]*httptest.Server{}
	runtime, err := os.MkdirTemp("", "cs")
	if err != nil {
		return err
	}
	for _, dir := range []string{"home/.ssh", "home/project"} {
		if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o700); err != nil {
			return err
		}
	}
	for key, value := range map[string]string{
		"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data",
	} {
		e.Setenv(key, filepath.Join(e.WorkDir, value))
	}
	e.Setenv("XDG_RUNTIME_DIR", runtime)
	e.Setenv("LANG", "C.UTF-8")
	e.Setenv("STORY_LEVEL", "native")
	e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	e.Cd = filepath.Join(e.WorkDir, "home", "project")
	e.Defer(func() {
		if err := errors.Join(endTerminals(filepath.Join(runtime, "tmux")), endStory(e.Vars), os.RemoveAll(runtime)); err != nil {
			e.T().Fatal(err)
		}
	})
	return nil
}

// endStory ends what a story left running, by its own folders.
func endStory(env []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var errs []error
	for _, args := range [][]string{{"cloister", "stop", "--all", "-t", "1s"}, {"cloister", "guardian", "stop"}} {
		c := exec.CommandContext(ctx, self)
		c.Args, c.Env = args, env
		if out, err := c.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out))
		}
	}
	return errors.Join(errs...)
}

// endTerminals ends the tmux of a story that failed before its own end: see shows.sh.
func endTerminals(socket string) error {
	if _, err := os.Stat(socket); err != nil {
		return nil // it had none, or ended it
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", "-S", socket, "kill-server").CombinedOutput()
	if err == nil || endedTerminals.Match(out) {
		return nil
	}
	return fmt.Errorf("end tmux: %w: %s", err, out)
}

// endedTerminals is what tmux says where its server ended before, or just now.
var endedTerminals = regexp.MustCompile(`no server|error connecting|server exited|lost server`)

// needs says what a story cannot do without. The line has been obeyed before the
// story began, since only a set-up can skip; here it is held again.
func needs(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("needs takes no !")
	}
	for _, word := range args {
		ts.Check(missing(word))
	}
}

// unmet is the first need of a story that this machine does not meet. It is an
// error where the machine claims to.
func unmet(name string) (why string, err error) {
	var text []byte
	err = fs.ErrNotExist
	for _, of := range []string{"script", "containers", "memory"} {
		if errors.Is(err, fs.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join("testdata", of, name+".txtar"))
		}
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		words, ok := strings.CutPrefix(line, "needs ")
		if !ok {
			continue
		}
		for word := range strings.FieldsSeq(words) {
			err := missing(word)
			if err != nil && claim.Claimed(word) {
				return "", fmt.Errorf("this machine claims %s: %w", word, err)
			}
			if err != nil {
				return fmt.Sprintf("needs %s: %v", word, err), nil
			}
		}
	}
	return "", nil
}

// enclosure is probed once for all stories.
var enclosure = sync.OnceValue(func() string {
	d, err := (&app{}).driverNamed("auto")
	if err != nil {
		return err.Error()
	}
	return d.Probe(context.Background()).Reason()
})

func missing(word string) error {
	switch word {
	case "userns":
		if why := enclosure(); why != "" {
			return fmt.Errorf("no enclosure can be built: %s", why)
		}
	case "root":
		if os.Getuid() != 0 {
			return fmt.Errorf("uid %d", os.Getuid())
		}
	default:
		_, err := exec.LookPath(word)
		return err
	}
	return nil
}

// upstream is a server on the person's own machine, which only proxy.hosts can
// open.
func upstream(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: upstream NAME")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	asked, err := os.Create(filepath.Join(ts.Getenv("WORK"), args[0]+".asked"))
	ts.Check(err)
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			line := fmt.Sprintf("%s %s%s", r.Method, r.Host, r.URL.Path)
			for _, name := range slices.Sorted(maps.Keys(r.Header)) {
				if strings.HasPrefix(name, "X-") {
					line += " " + name + "=" + strings.Join(r.Header[name], ",")
				}
			}
			fmt.Fprintln(asked, line)
			fmt.Fprintf(w, "hello from %s\n", args[0])
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ts.Defer(func() {
		server.Close()
		<-served
		asked.Close()
	})
	ts.Setenv(args[0], listener.Addr().String())
}

// registries is the key of a story's registries.
type registries struct{}

// serveRegistry serves features of devcontainers.
func serveRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: registry NAME [PASSWORD]")
	}
	servers := ts.Value(registries{}).(map[string]*httptest.Server)
	server := servers[args[0]]
	if server == nil {
		server = httptest.NewTLSServer(&passworded{Handler: registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))})
		servers[args[0]] = server
		ts.Defer(server.Close)
	}
	ts.Setenv(args[0], server.Listener.Addr().String())
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), args[0]+".pem"), ca, 0o644))
	dirs, err := filepath.Glob(filepath.Join(ts.Getenv("WORK"), "features", "*"))
	ts.Check(err)
	for _, dir := range dirs {
		files := map[string]string{}
		ts.Check(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			files[strings.TrimPrefix(path, dir+"/")] = string(text)
			return err
		}))
		packed, err := featurestest.Pack(files)
		ts.Check(err)
		_, err = featurestest.Push(context.Background(), server, "team/"+filepath.Base(dir)+":1", packed)
		ts.Check(err)
	}
	if len(args) == 2 {
		server.Config.Handler.(*passworded).word.Store(args[1])
	}
}

// passworded is a handler that wants a password, once it has one.
type passworded struct {
	http.Handler
	word atomic.Value
}

func (p *passworded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want, _ := p.word.Load().(string)
	if _, got, _ := r.BasicAuth(); got == want || want == "" {
		p.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="features"`)
	w.WriteHeader(http.StatusUnauthorized)
}

// audited looks for a line of the record.
func audited(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] audited REGEXP")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	files, err := filepath.Glob(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "cloister", "audit", "*.jsonl"))
	ts.Check(err)
	var lines []string
	for _, name := range files {
		f, err := os.Open(name)
		ts.Check(err)
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			lines = append(lines, s.Text())
		}
		ts.Check(s.Err())
		ts.Check(f.Close())
	}
	if slices.ContainsFunc(lines, want.MatchString) == neg {
		ts.Fatalf("audited %s: %t; the audit ends with\n%s", args[0], neg, strings.Join(lines[max(0, len(lines)-8):], "\n"))
	}
}

// eventually waits for what another process does.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually SECONDS COMMAND...")
	}
	most, err := time.ParseDuration(args[0] + "s")
	ts.Check(err)
	for deadline := time.Now().Add(most); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s: %v after %s\n%s%s", strings.Join(args[1:], " "), err, most, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
		<-time.After(50 * time.Millisecond)
	}
}
