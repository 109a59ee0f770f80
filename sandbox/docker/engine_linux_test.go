package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/onhost"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// ask speaks to the engine as anybody would.
func ask(t *testing.T, method, path string, in io.Reader, out any) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", engineSocket(t))
	}}}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, "http://engine/v1.41"+path, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, text, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatal(err)
		}
	}
}

type container struct {
	ID     string `json:"Id"`
	Labels map[string]string
}

// containers are those of instances: others use the engine at the same time.
func containers(t *testing.T, instances ...string) (ours []container) {
	t.Helper()
	var all []container
	ask(t, http.MethodGet, "/containers/json?all=1", nil, &all)
	for _, c := range all {
		if slices.Contains(instances, c.Labels["cloister.instance"]) {
			ours = append(ours, c)
		}
	}
	return ours
}

// TestEngineContainer looks at the containers with the engine's eyes: HARDENING
// 5.2, box by box.
func TestEngineContainer(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh", "sleep", "env", "cat", "id")), ID: digest("aaaa")}
	d := docker.New(o)
	h := sandboxtest.New(t, onImage{d, root})
	var inits int
	out := h.Run(t, sandboxtest.Options{
		Change: func(s *sandbox.Spec) { s.Limits = sandbox.Limits{Memory: 256 << 20, CPUs: 1.13, Pids: 100} },
		During: func(b sandbox.Box) {
			for _, c := range containers(t, docker.Instance(d)) {
				var i struct {
					Image      string
					Config     struct{ User, Image string }
					Mounts     []struct{ Source, Destination string }
					HostConfig struct {
						NetworkMode, IpcMode, PidMode, UTSMode, CgroupnsMode, UsernsMode string
						CapAdd, CapDrop, SecurityOpt, MaskedPaths, ReadonlyPaths         []string
						Privileged, ReadonlyRootfs, PublishAllPorts, AutoRemove          bool
						PidsLimit, Memory, MemorySwap, NanoCpus, OomScoreAdj             int64
						Devices                                                          []any
					}
				}
				ask(t, http.MethodGet, "/containers/"+c.ID+"/json", nil, &i)
				hc := i.HostConfig
				for _, m := range i.Mounts {
					if strings.Contains(m.Source, "docker.sock") || m.Source == "/" {
						t.Errorf("mounts %s", m.Source)
					}
				}
				if hc.Privileged || hc.NetworkMode != "none" || hc.PidMode != "" || hc.UTSMode != "" || hc.CgroupnsMode != "private" || !hc.ReadonlyRootfs || len(hc.Devices) > 0 || hc.AutoRemove {
					t.Errorf("%s: %+v", c.Labels["cloister.role"], hc)
				}
				if c.Labels["cloister.role"] != "init" {
					continue
				}
				inits++
				if len(hc.CapAdd) > 0 || !slices.Equal(hc.CapDrop, []string{"ALL"}) || hc.IpcMode != "private" || hc.PidsLimit < 100 || hc.PidsLimit > 120 || hc.Memory != 256<<20 || hc.MemorySwap != hc.Memory || hc.NanoCpus != 1.13e9 || hc.OomScoreAdj != int64(onhost.Sooner()) {
					t.Errorf("%+v", hc)
				}
				if user, _, _ := strings.Cut(i.Config.User, ":"); user == "0" || user == "" || user == "root" {
					t.Errorf("runs as %q", i.Config.User)
				}
				if !strings.HasPrefix(i.Config.Image, "sha256:") {
					t.Errorf("named %s, not by digest", i.Config.Image)
				}
				options := strings.Join(hc.SecurityOpt, " ")
				if !strings.Contains(options, "no-new-privileges") || !strings.Contains(options, "seccomp={") || strings.Contains(options, "unconfined") || strings.Contains(options, "io_uring_setup\"],\"action\":\"SCMP_ACT_ALLOW") {
					t.Errorf("security options %.200s", options)
				}
				for _, p := range []string{"/proc/kcore", "/proc/keys", "/sys/firmware", "/proc/interrupts", "/sys/kernel"} {
					if !slices.Contains(hc.MaskedPaths, p) {
						t.Errorf("%s is not masked", p)
					}
				}
				if !slices.Contains(hc.ReadonlyPaths, "/proc/sys") {
					t.Error("/proc/sys is not read-only")
				}
			}
			h.Write(t, "go", "")
		},
	}, "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done")
	if out.Err != nil || out.Status.ExitCode() != 0 || inits != 1 {
		t.Errorf("%+v, %d containers of the agent", out, inits)
	}
	if left := containers(t, docker.Instance(d)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestEngineImageSays: what an image says about how to be run is not obeyed.
func TestEngineImageSays(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh", "env", "cat", "ls")), ID: digest("bbbb")}
	d := docker.New(o)
	if err := d.Give(t.Context(), root, func(string) {}); err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID string `json:"Id"`
	}
	body := `{"Image":"cloister/root:bbbbbbbbbbbbbbbb","Cmd":["x"]}`
	ask(t, http.MethodPost, "/containers/create", strings.NewReader(body), &made)
	changes := "&changes=VOLUME+/data&changes=VOLUME+/etc&changes=ENTRYPOINT+%5B%22/bin/false%22%5D&changes=ENV+LD_PRELOAD=/evil.so&changes=USER+root&changes=WORKDIR+/nowhere&changes=HEALTHCHECK+CMD+false"
	ask(t, http.MethodPost, "/commit?container="+made.ID+"&repo=cloister-test-says"+changes, nil, nil)
	ask(t, http.MethodDelete, "/containers/"+made.ID, nil, nil)
	t.Cleanup(func() {
		for _, name := range []string{"cloister-test-says", "cloister/root:bbbbbbbbbbbbbbbb"} {
			r, err := http.NewRequest(http.MethodDelete, "http://engine/v1.41/images/"+name+"?force=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", o.Socket)
			}}}
			if resp, err := c.Do(r); err == nil {
				resp.Body.Close()
			}
		}
	})
	says, _, err := d.Find(t.Context(), "cloister-test-says")
	if err != nil {
		t.Fatal(err)
	}
	h := sandboxtest.New(t, onImage{d, says})
	out := h.Run(t, sandboxtest.Options{}, "sh", "-c", "env; cat /proc/mounts; ls -d /data; echo x > /data/x; echo x > /etc/x; cat /etc/resolv.conf")
	if out.Err != nil || strings.Contains(out.Stdout, "evil") || strings.Contains(out.Stdout, " /data ") || strings.Contains(out.Stdout, " /etc ") ||
		!strings.Contains(out.Stdout, "nameserver 198.18.0.1") || strings.Count(out.Stderr, "cannot create") != 2 {
		t.Errorf("%+v", out)
	}
}

// TestEngineClosedFolders: what is shown in a folder of the image that is closed
// to others is reached; what else the folder holds stays closed.
func TestEngineClosedFolders(t *testing.T) {
	o := options(t)
	dir := system.Make(t, "sh", "cat", "ls")
	for _, closed := range []string{"root/kept", "closed/by/somebody"} {
		if err := os.MkdirAll(filepath.Join(dir, closed), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, closed := range []string{"root", "closed", "closed/by"} {
		if err := os.Chmod(filepath.Join(dir, closed), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h := sandboxtest.New(t, onImage{docker.New(o), sandbox.Root{Dir: sandbox.HostPath(dir), ID: digest("ffff")}})
	shown := t.TempDir()
	h.Write(t, filepath.Join(shown, "word"), "reached")
	out := h.Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) {
		for _, at := range []sandbox.GuestPath{"/root/deep/down", "/closed/by/somebody/else"} {
			s.Binds = append(s.Binds, sandbox.Bind{Source: sandbox.HostPath(shown), Target: at})
		}
	}}, "sh", "-c", "cat /root/deep/down/word /closed/by/somebody/else/word; ls /root; ls /root/kept; ls /closed")
	if out.Err != nil || out.Stdout != "reachedreached" || strings.Count(out.Stderr, "ermission denied") != 3 {
		t.Errorf("%+v", out)
	}
}

// TestEngineNoImage: an image that is missing, or has no such program, is refused
// by name.
func TestEngineNoImage(t *testing.T) {
	o := options(t)
	d := docker.New(o)
	h := sandboxtest.New(t, onImage{d, sandbox.Root{ID: "sha256:" + strings.Repeat("0", 64)}})
	out := h.Run(t, sandboxtest.Options{}, "true")
	if _, ok := errors.AsType[*docker.NoImage](out.Err); !ok {
		t.Errorf("missing: %v", out.Err)
	}
	empty := t.TempDir()
	if err := os.MkdirAll(filepath.Join(empty, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	h = sandboxtest.New(t, onImage{d, sandbox.Root{Dir: sandbox.HostPath(empty), ID: digest("cccc")}})
	out = h.Run(t, sandboxtest.Options{}, "sh")
	if e, ok := errors.AsType[*sandbox.ExecError](out.Err); !ok || !e.NotFound {
		t.Errorf("without a shell: %v", out.Err)
	}
	if left := containers(t, docker.Instance(d)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestEngineSweep: what a crash left is found by its label, and another instance's
// is not touched.
func TestEngineSweep(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh", "sleep")), ID: digest("dddd")}
	d := docker.New(o)
	h := sandboxtest.New(t, onImage{d, root})
	instance := docker.Instance(d)
	another := instance + "-another"
	var session string
	out := h.Run(t, sandboxtest.Options{During: func(b sandbox.Box) {
		for _, c := range containers(t, instance) {
			session = c.Labels["cloister.session"]
		}
		if err := d.Leftovers(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(containers(t, instance)); n != 2 {
			t.Errorf("a living session has %d containers after a sweep", n)
		}
		h.Write(t, "go", "")
	}}, "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done")
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	var made [2]struct {
		ID string `json:"Id"`
	}
	for i, name := range []string{instance, another} {
		body, err := json.Marshal(map[string]any{"Image": "cloister/gate:1", "Cmd": []string{"x"}, "Labels": map[string]string{"cloister.instance": name, "cloister.session": session, "cloister.role": "init"}})
		if err != nil {
			t.Fatal(err)
		}
		ask(t, http.MethodPost, "/containers/create", bytes.NewReader(body), &made[i])
	}
	left := filepath.Join(o.Dir, docker.Short(session))
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "e"), []byte(o.Socket), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.Leftovers(t.Context()); err != nil {
		t.Error(err)
	}
	if now := containers(t, instance, another); len(now) != 1 || now[0].ID != made[1].ID {
		t.Errorf("left: %v, want another instance's alone", now)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the folder is left")
	}
	ask(t, http.MethodDelete, "/containers/"+made[1].ID, nil, nil)
}

// TestEngineTerminal: a caller with a terminal gives the command one of its own.
func TestEngineTerminal(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh", "stty", "tty")), ID: digest("eeee")}
	h := sandboxtest.New(t, onImage{docker.New(o), root})
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = errors.Join(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(master) // EIO at the end, as a terminal does
		text <- string(b)
	}()
	box, err := h.Driver.Start(t.Context(), sandbox.Spec{
		ID: "terminal", Name: "terminal", Argv: []string{"sh", "-c", "tty; stty size"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
		User: sandbox.User{ID: max(os.Geteuid(), 1), Name: "agent", Home: "/tmp"},
	}, sandbox.Wiring{Stdin: slave, Stdout: slave, Stderr: slave})
	if err != nil {
		t.Fatal(err)
	}
	st, err := box.Wait()
	slave.Close()
	if got := <-text; err != nil || st.ExitCode() != 0 || !strings.Contains(got, "/dev/pts/0") || !strings.Contains(got, "33 77") {
		t.Errorf("%v, %v, %q", st, err, got)
	}
}
