package docker_test

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// careless stands before the engine and changes what it is told of the agent's
// container: as an engine would that leaves something out, or a proxy of a company. The
// engine's first word it keeps: a machine that is as busy as tests make it may not give
// it again in the few seconds that a driver waits for one.
func careless(t *testing.T, change func(body, host map[string]any)) (socket string) {
	t.Helper()
	behind := engineClient(t)
	pong, err := behind.Get("http://engine/_ping")
	if err != nil {
		t.Fatal(err)
	}
	pong.Body.Close()
	return docker.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_ping" {
			maps.Copy(w.Header(), pong.Header)
			_, _ = io.WriteString(w, "OK") // who asked may have gone
			return
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return // who asked has gone
		}
		if createsAgent(r) {
			text = edited(t, text, change)
		}
		resp, err := handOn(behind, r, text)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		handBack(w, resp)
	}))
}

// TestEngineLayers breaks every wall that the engine builds, one at a time: the start
// ends with the name of the wall, or another one stands behind it.
func TestEngineLayers(t *testing.T) {
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh", "cat")), ID: digest("1a7f")}
	if err := docker.New(options(t)).Give(t.Context(), root, func(string) {}); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	// Podman keeps these whatever it is told, or, of the first, cannot keep it where
	// there are control groups of version 1.
	podmans := []string{"cgroup", "temporary folders", "the engine's socket"}
	for _, tt := range []struct {
		name   string
		change func(body, host object)
		want   string // "": it runs, since the gate makes the same again, whatever the engine did
	}{
		{"nothing", func(object, object) {}, ""},
		{"capabilities", func(_, h object) { h["CapDrop"] = nil }, "CapBnd is"},
		{"one capability", func(_, h object) { h["CapAdd"] = []string{"NET_RAW"} }, "CapBnd is|CapInh is"},
		{"no-new-privileges", func(_, h object) { h["SecurityOpt"] = h["SecurityOpt"].([]any)[1:] }, "NoNewPrivs is 0"},
		{"seccomp", func(_, h object) { h["SecurityOpt"] = []string{"no-new-privileges", "seccomp=unconfined"} }, "Seccomp is 0"},
		{"our seccomp profile", func(_, h object) { h["SecurityOpt"] = []string{"no-new-privileges"} }, "the seccomp profile: "},
		{"privileged", func(_, h object) { h["Privileged"] = true }, "NoNewPrivs is 0|Seccomp is 0|CapBnd is"},
		{"user", func(b, _ object) { b["User"] = "0:0" }, "the engine is rootless or maps users"},
		{"network", func(b, h object) { b["NetworkDisabled"], h["NetworkMode"], h["Sysctls"] = false, "host", nil }, "own net namespace"},
		{"ipc", func(_, h object) { h["IpcMode"] = "host" }, "own ipc namespace"},
		{"pid", func(_, h object) { h["PidMode"] = "host" }, "own pid namespace"},
		{"uts", func(_, h object) { h["UTSMode"] = "host" }, "own uts namespace"},
		{"cgroup", func(_, h object) { h["CgroupnsMode"] = "host" }, "own cgroup namespace"},
		{"processes", func(_, h object) { h["PidsLimit"] = 0 }, "pids: nothing is bounded"},
		{"more processes", func(_, h object) { h["PidsLimit"] = 9999 }, "pids: bounded by 9999"},
		{"memory", func(_, h object) { h["Memory"], h["MemorySwap"] = 0, 0 }, "memory: bounded by"},
		{"processors", func(_, h object) { h["NanoCpus"] = 0 }, "cpu: bounded by -1|cpu: nothing is bounded"},
		{"core files", func(_, h object) { h["Ulimits"] = []object{{"Name": "memlock", "Soft": 0, "Hard": 0}} }, "the limit of|setting rlimit"},
		{"masked paths", func(_, h object) { h["MaskedPaths"] = []string{} }, ""},
		{"one masked path", func(_, h object) { h["MaskedPaths"] = without(h["MaskedPaths"], "/proc/keys") }, ""},
		{"read-only paths", func(_, h object) { h["ReadonlyPaths"] = []string{} }, ""},
		{"temporary folders", func(_, h object) { h["Tmpfs"] = object{} }, "/tmp: read-only|/tmp is no memory"},
		{"set-id in temporary folders", func(_, h object) { h["Tmpfs"] = object{"/tmp": "rw,suid,dev,exec", "/var/tmp": "rw,suid,dev,exec"} }, "/tmp is no memory"},
		{"a device", func(_, h object) {
			h["Devices"] = []object{{"PathOnHost": "/dev/zero", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}}
		}, "the device /dev/sda"},
		{"read-only root", func(_, h object) { h["ReadonlyRootfs"] = false }, ""},
		{"the engine's socket", func(_, h object) {
			h["Mounts"] = append(h["Mounts"].([]any), object{"Type": "bind", "Source": engineSocket(t), "Target": "/run/docker.sock"})
		}, "the engine is not refused"},
		{"a folder of the host", func(_, h object) {
			h["Mounts"] = append(h["Mounts"].([]any), object{"Type": "bind", "Source": "/etc", "Target": "/host"})
		}, ""},
		{"another program", func(b, _ object) { b["Entrypoint"], b["Cmd"] = []string{"/bin/sh"}, []string{"-c", "exit 9"} }, "ended before it said a word"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			o.Socket = careless(t, tt.change)
			if slices.Contains(podmans, tt.name) && isPodman(t) && (tt.name != "cgroup" || !cgroup.Unified()) {
				tt.want = ""
			}
			d := docker.Patience(o, 2*time.Minute)
			out := sandboxtest.New(t, onImage{d, root}).Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) {
				s.ID = t.Name() + o.Dir
				s.Limits = sandbox.Limits{Memory: 256 << 20, CPUs: 1.5, Pids: 100}
			}}, "sh", "-c", "echo ran; echo x >/etc/x; echo x >/host/x; cat /proc/interrupts /proc/keys; exit 0")
			switch {
			case tt.want == "":
				if out.Err != nil || out.Stdout != "ran\n" || strings.Count(out.Stderr, "cannot create") != 2 {
					t.Errorf("%+v", out)
				}
			case out.Err == nil || out.Stdout != "":
				t.Errorf("it ran: %+v", out)
			case !said(out.Err.Error(), tt.want):
				t.Errorf("%v, want %q", out.Err, tt.want)
			}
			for _, c := range containers(t, docker.Instance(d)) {
				t.Errorf("left: %v", c)
			}
		})
	}
}

func isPodman(t *testing.T) bool {
	t.Helper()
	var v struct{ Components []struct{ Name string } }
	ask(t, http.MethodGet, "/version", nil, &v)
	return len(v.Components) > 0 && strings.Contains(v.Components[0].Name, "Podman")
}

// without is a list of a body less one of its words.
func without(list any, word string) []any {
	return slices.DeleteFunc(list.([]any), func(w any) bool { return w == word })
}

func said(text, any string) bool {
	for want := range strings.SplitSeq(any, "|") {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}
