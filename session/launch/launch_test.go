package launch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/config"
	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/internal/hint"
	"cloister/policy"
	"cloister/sandbox"
	"cloister/session/launch"
	"cloister/workspace"

	"github.com/google/go-cmp/cmp"
)

func TestCheckRefusesWrongWords(t *testing.T) {
	for _, c := range []struct {
		name       string
		order      launch.Order
		says, hint string
	}{
		{"isolation", launch.Order{Isolation: "chroot"}, `run: --isolation "chroot" is not known`, "one of: native, user, docker, gvisor, microvm, kubernetes, auto"},
		{"mode", launch.Order{Mode: "lax"}, `run: --mode "lax" is not known`, "one of: enforce, shadow, record"},
		{"workspace", launch.Order{Workspace: "l"}, `run: --workspace "l" is not known`, "one of: live, overlay, scratch, git, none"},
		{"no residue", launch.Order{Accept: []string{"everything"}}, `run: --accept "everything" names no residue`, "one of: residue:wide-workspace"},
		{"near a residue", launch.Order{Accept: []string{"residue:cgroup-limit"}}, "names no residue", "did you mean --accept residue:cgroup-limits?"},
		{"agent with a path", launch.Order{Agent: "bin/x"}, `run: --agent "bin/x" is not the name of a program`, "such as --agent claude"},
		{"agent as a variable", launch.Order{Agent: "${HOME}"}, `--agent "${HOME}" is not the name of a program`, ""},
		{"agent as a flag", launch.Order{Agent: "-x"}, `--agent "-x"`, ""},
		{"negative time", launch.Order{Timeout: -1}, "run: a limit cannot be negative", ""},
		{"negative idle time", launch.Order{Idle: -time.Second}, "run: a limit cannot be negative", ""},
		{"destination", launch.Order{Allow: []string{"a b"}}, "run: --allow", "write DOMAIN or DOMAIN:PORT"},
		{"port", launch.Order{Publish: []string{"no"}}, "run: --publish ", "write PORT or HOSTPORT:PORT"},
		{"port twice", launch.Order{Publish: []string{"8080", "8080:80"}}, "port 8080 of this machine is named twice", ""},
		{"port without a network", launch.Order{Publish: []string{"80"}, NoNetwork: true}, "run: --no-network and --publish exclude each other", ""},
		{"a host without a network", launch.Order{Allow: []string{"api.example.com"}, NoNetwork: true}, "run: --no-network and --allow exclude each other", ""},
		{"name", launch.Order{Name: "../x"}, "run: ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.order.Verb = "run"
			err := c.order.Check()
			if !launch.IsUsage(err) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %q", err, c.says)
			}
			if hints := strings.Join(hint.Of(err), "\n"); !strings.Contains(hints, c.hint) {
				t.Errorf("advice %q, want %q", hints, c.hint)
			}
		})
	}
}

func TestCheckTakesWhatMeansSomething(t *testing.T) {
	for _, o := range []launch.Order{
		{},
		{Isolation: "auto", Mode: "record", Workspace: "scratch", Agent: "claude", Name: "fix-1"},
		{Accept: []string{"residue:wide-workspace", "residue:policy:x.cedar#1"}},
		{Allow: []string{"*.example.com:8443"}, Deny: []string{"203.0.113.0/24"}, Publish: []string{"8080", "9090:80"}},
	} {
		if err := o.Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestVariables(t *testing.T) {
	env := map[string]string{"TOKEN": "t", "EMPTY": ""}
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{nil, nil},
		{[]string{"A=b", "TOKEN", "ABSENT", "EMPTY", "C="}, []string{"A=b", "TOKEN=t", "EMPTY=", "C="}},
	} {
		o := launch.Order{Env: c.words}
		if got, err := o.Variables(env); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q are %q, %v, want %q", c.words, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "=x", "A=\x00"} {
		o := launch.Order{Verb: "run", Env: []string{bad}}
		if _, err := o.Variables(env); !launch.IsUsage(err) {
			t.Errorf("-e %q: %v", bad, err)
		}
	}
}

func TestUserOf(t *testing.T) {
	for _, c := range []struct {
		uid  int
		name string
		want sandbox.User
	}{
		{0, "root", sandbox.User{ID: 1000, Name: "agent"}},
		{1001, "maria", sandbox.User{ID: 1001, Name: "maria"}},
		{1001, "root", sandbox.User{ID: 1001, Name: "agent"}},
		{1001, "a:b", sandbox.User{ID: 1001, Name: "agent"}},
		{1001, "", sandbox.User{ID: 1001, Name: "agent"}},
	} {
		if got := launch.UserOf(c.uid, c.name); got != c.want {
			t.Errorf("user %d %q is %v, want %v", c.uid, c.name, got, c.want)
		}
	}
}

// facts are those of a machine whose home is a new folder.
func facts(t *testing.T, cfg *config.Config) launch.Facts {
	home := t.TempDir()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	write(t, bundle, "-----BEGIN CERTIFICATE-----\n")
	places, err := taint.Read(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return launch.Facts{
		Host: resolve.New(places, os.Getuid()), Config: cfg, Home: home, RealHome: home, UID: 1001,
		Env: map[string]string{"USER": "maria", "PATH": "/usr/bin", "SSL_CERT_FILE": bundle, "TOKEN": "t"},
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestResolveJoinsWhatWasTypedWithTheConfiguration(t *testing.T) {
	cfg := config.Default()
	cfg.Resources.Memory, cfg.Resources.PIDs = 1<<30, 99
	cfg.Agents = map[string]config.Agent{"claude": {Env: map[string]string{"A": "configured"}}}
	f := facts(t, cfg)
	cfg.Filesystem.Expose = []string{"~/absent", "~"}
	cfg.Filesystem.Hide, cfg.Filesystem.Protect = []string{".env"}, []string{"Makefile"}
	o := launch.Order{
		Verb: "run", Agent: "claude", Memory: "2GiB", CPUs: 0.5, Env: []string{"A=typed", "TOKEN"},
		Expose: []string{f.Home + ":rw"}, Hide: []string{"secret"}, Publish: []string{"8080:80"}, Allow: []string{"example.com"},
		Accept: []string{"residue:wide-workspace"}, ReadOnly: true,
	}
	o.Fill(cfg)
	p, err := launch.Resolve(o, f)
	if err != nil {
		t.Fatal(err)
	}
	if want := (sandbox.Limits{Memory: 2 << 30, CPUs: 0.5, Pids: 99}); p.Limits != want {
		t.Errorf("limits %+v, want %+v", p.Limits, want)
	}
	cfg.Resources.CPUs = 4
	for all, want := range map[bool]float64{false: 4, true: 0} {
		if p, err := launch.Resolve(launch.Order{Verb: "run", AllCPUs: all}, facts(t, cfg)); err != nil || p.Limits.CPUs != want {
			t.Errorf("no limit of processors %v: %+v, %v", all, p, err)
		}
	}
	if at, over := slices.Index(p.Env, "A=configured"), slices.Index(p.Env, "A=typed"); at < 0 || over < at || !slices.Contains(p.Env, "TOKEN=t") {
		t.Errorf("what is typed is not the last word: %q", p.Env)
	}
	want := []workspace.Expose{{Path: f.Home}, {Path: f.Home, Access: sandbox.ReadWrite, Typed: true}}
	if diff := cmp.Diff(want, p.View.Expose); diff != "" {
		t.Errorf("exposed (-want +got):\n%s", diff)
	}
	if !slices.Equal(p.Notices, []string{"cloister: filesystem.expose: ~/absent is not there"}) {
		t.Errorf("notices %q", p.Notices)
	}
	if !slices.Equal(p.View.Hide, []string{".env", "secret"}) || !slices.Equal(p.View.Protect, []string{"Makefile"}) || !p.View.ReadOnly {
		t.Errorf("hides %q, protects %q, read-only %v", p.View.Hide, p.View.Protect, p.View.ReadOnly)
	}
	if !slices.Equal(cfg.Filesystem.Hide, []string{".env"}) {
		t.Errorf("the configuration was changed: %q", cfg.Filesystem.Hide)
	}
	if p.CAFile != f.Env["SSL_CERT_FILE"] {
		t.Errorf("authorities of %q", p.CAFile)
	}
	r := p.Request(o, []string{"claude"})
	if r.Mode != "enforce" || r.Workspace != "live" || !r.Network || !slices.Equal(r.Writable, []string{f.Home}) ||
		!slices.Equal(r.Accepted, []string{"wide-workspace"}) || len(r.Publish) != 1 || !slices.Equal(r.Allow, o.Allow) {
		t.Errorf("request %+v", r)
	}
}

func TestResolveRefusesWhatIsTypedAndNotThere(t *testing.T) {
	for name, o := range map[string]launch.Order{
		"expose": {Expose: []string{"/absent"}},
		"ref":    {Refs: []string{"/absent"}},
		"memory": {Memory: "much"},
		"policy": {Policy: []string{"/absent.cedar"}},
		"accept": {Accept: []string{"residue:policy:x.cedar#1"}},
	} {
		if _, err := launch.Resolve(o, facts(t, config.Default())); !launch.IsUsage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := facts(t, config.Default())
	f.Config.Proxy.UpstreamCA = []string{"~/ca.txt"}
	write(t, filepath.Join(f.Home, "ca.txt"), "no certificate")
	if _, err := launch.Resolve(launch.Order{}, f); err == nil || launch.IsUsage(err) || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("authorities: %v", err)
	}
}

// The plan keeps what Cedar files say of files, and names their rules.
func TestResolveClosesWhatCedarForbids(t *testing.T) {
	f := facts(t, config.Default())
	f.Cedar = []policy.CedarFile{{Name: "a.cedar", Text: []byte(`forbid (principal, action == Action::"FileOpen", resource == Dir::"/srv/keys");` + "\n")}}
	p, err := launch.Resolve(launch.Order{}, f)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Closed) != 1 || len(p.View.Closed) != 1 || p.View.Closed[0].Rule != p.Closed[0] || !strings.HasPrefix(p.View.Closed[0].Path, "/srv/keys") {
		t.Errorf("closed %q, view %+v", p.Closed, p.View.Closed)
	}
}

// This test binary is its own shim.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "be-a-shim" {
		os.Exit(shim())
	}
	os.Exit(m.Run())
}

func shim() int {
	o, reply, err := launch.Receive()
	switch {
	case err != nil:
		return 3
	case o.Name == "ends":
		return 4
	case o.Name == "fails":
		reply.Send(launch.Answer{Error: "it failed", Hints: []string{"try"}, Status: 126})
	case o.Name == "joined":
		reply.Send(launch.Answer{Name: "other", Joined: true})
	case o.Name == "waits":
		time.Sleep(time.Minute) //nolint:forbidigo // the shim of this test, which is ended
	default:
		if err := reply.NameLog(o.Report); err != nil {
			return 5
		}
		os.Stdout.WriteString("output of " + strings.Join(o.Args, ","))
		reply.Send(launch.Answer{Name: o.Name})
		reply.Send(launch.Answer{Name: "second"})
	}
	return 0
}

func self(t *testing.T) launch.Self {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launch.Self{Path: exe, Args: []string{exe, "be-a-shim"}, Env: os.Environ(), Dir: "/", Logs: filepath.Join(t.TempDir(), "logs")}
}

func TestAShimGetsItsOrderAndAnswers(t *testing.T) {
	s, log := self(t), filepath.Join(t.TempDir(), "named.log")
	long := strings.Repeat("x", 1<<20) // more than a pipe holds
	c, err := s.Start(launch.Order{Name: "n", Args: []string{"a", long}, Report: log})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Answer(t.Context())
	if err != nil || a.Name != "n" || a.Joined {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != "output of a,"+long {
		t.Errorf("a log of %d bytes, %v", len(text), err)
	}
	empty(t, s)
}

func TestAShimThatDoesNotRunIsAnError(t *testing.T) {
	for name, check := range map[string]func(launch.Answer, error) bool{
		"ends": func(_ launch.Answer, err error) bool {
			return err != nil && strings.Contains(err.Error(), "it ended before its command ran: exit status 4")
		},
		"fails": func(_ launch.Answer, err error) bool {
			f, is := errors.AsType[*launch.Failure](err)
			return is && f.Error() == "it failed" && slices.Equal(f.Hints(), []string{"try"}) && f.Answer.Status == 126
		},
		"joined": func(a launch.Answer, err error) bool { return err == nil && a.Joined && a.Name == "other" },
	} {
		t.Run(name, func(t *testing.T) {
			s := self(t)
			c, err := s.Start(launch.Order{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			if a, err := c.Answer(t.Context()); !check(a, err) {
				t.Errorf("%+v, %v", a, err)
			}
			empty(t, s)
		})
	}
	s := self(t)
	s.Path = "/absent"
	if _, err := s.Start(launch.Order{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	empty(t, s)
}

// empty wants no log left behind.
func empty(t *testing.T, s launch.Self) {
	t.Helper()
	if left, err := os.ReadDir(s.Logs); err != nil || len(left) > 0 {
		t.Errorf("logs left: %v, %v", left, err)
	}
}

func TestWaitingForAShimEndsWithTheContext(t *testing.T) {
	c, err := self(t).Start(launch.Order{Name: "waits"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Answer(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if p, err := os.FindProcess(c.PID); err == nil {
		_ = p.Kill()
	}
	_ = c.Wait()
}

// A file of authorities that a payload could write is no one's word for whom to believe, and
// a link in its place shows nothing.
func TestAuthoritiesOfSomeoneElse(t *testing.T) {
	cfg := config.Default()
	f := facts(t, cfg)
	project, secret := t.TempDir(), filepath.Join(f.Home, "key")
	write(t, secret, "-----BEGIN CERTIFICATE-----\ncanary\n")
	planted := filepath.Join(project, "ca.pem")
	if err := os.Symlink(secret, planted); err != nil {
		t.Fatal(err)
	}
	f.Env["SSL_CERT_FILE"], f.Project = planted, project
	if a, err := launch.Authorities(f); err != nil || a.File != planted || len(a.Notices) > 0 {
		t.Errorf("control: %+v, %v; want the file as long as nobody writes it", a, err)
	}
	look := func(name string, own ...string) {
		t.Helper()
		a, err := launch.Authorities(f, own...)
		if err != nil || a.File == planted || strings.Contains(string(a.More), "canary") || len(a.Notices) != 1 {
			t.Errorf("%s: %+v, %v; want the system's, and a notice", name, a, err)
		}
		cfg.Proxy.UpstreamCA = []string{planted}
		if a, err := launch.Authorities(f, own...); err == nil || strings.Contains(string(a.More), "canary") ||
			!strings.Contains(err.Error(), "is not read") {
			t.Errorf("%s, proxy.upstream_ca: %s, %v", name, a.More, err)
		}
		cfg.Proxy.UpstreamCA = nil
	}
	again, err := taint.Read(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Enter(taint.Place{Kind: taint.Project, Path: project}); err != nil {
		t.Fatal(err)
	}
	f.Host = resolve.New(again, os.Getuid()) // one is for one start
	look("a link in a project")
	if err := os.Remove(planted); err != nil {
		t.Fatal(err)
	}
	write(t, planted, "-----BEGIN CERTIFICATE-----\n")
	look("a file in a project")
	planted = filepath.Join(t.TempDir(), "ca.pem")
	write(t, planted, "-----BEGIN CERTIFICATE-----\n")
	f.Env["SSL_CERT_FILE"] = planted
	look("a file that this session may write", filepath.Dir(planted))
}

func TestPoliciesWhereAPayloadWrites(t *testing.T) {
	cfg := config.Default()
	f := facts(t, cfg)
	project := t.TempDir()
	file, link := filepath.Join(project, "p.cedar"), filepath.Join(project, "link.cedar")
	write(t, file, "permit(principal, action, resource);\n")
	if err := errors.Join(os.Symlink(file, link), f.Host.Places().Enter(taint.Place{Kind: taint.Project, Path: project})); err != nil {
		t.Fatal(err)
	}
	o := launch.Order{Verb: "run", Policy: []string{file}}
	o.Fill(cfg)
	if p, err := launch.Resolve(o, f); err != nil || len(p.Cedar) != 1 || len(p.Notices) != 1 || !strings.Contains(p.Notices[0], "look at what it says") {
		t.Errorf("typed: %+v, %v", p.Notices, err)
	}
	o.Policy = []string{link}
	if _, err := launch.Resolve(o, f); err == nil || !strings.Contains(err.Error(), "could write") {
		t.Errorf("a link of a payload's: %v", err)
	}
}
