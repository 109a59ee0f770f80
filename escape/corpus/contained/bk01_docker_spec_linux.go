package contained

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"cloister/escape"
)

// Engine speaks to the engine of a world as anybody would.
type Engine struct{ socket string }

// EngineOf is that of a world.
func EngineOf(w *escape.World) Engine {
	socket := strings.TrimPrefix(w.Env["DOCKER_HOST"], "unix://")
	if socket == "" {
		socket = "/run/docker.sock"
	}
	return Engine{socket}
}

// Ask sends and reads JSON.
func (e Engine) Ask(method, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	text, err = e.Send(method, path, "application/json", text)
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	return err
}

// Send sends a body and gives the answer's.
func (e Engine) Send(method, path, kind string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) //nolint:forbidigo // a look of its own
	defer cancel()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", e.socket)
	}}}
	r, err := http.NewRequestWithContext(ctx, method, "http://engine/v1.41"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", kind)
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return text, err
}

// created is a container as the engine tells it.
type created struct {
	Image           string
	AppArmorProfile string
	Config          struct{ User, Image string }
	Mounts          []struct{ Source, Destination string }
	HostConfig      struct {
		NetworkMode, IpcMode, PidMode, UTSMode, CgroupnsMode, UsernsMode string
		CapAdd, CapDrop, SecurityOpt, MaskedPaths, ReadonlyPaths         []string
		Privileged, ReadonlyRootfs, PublishAllPorts                      bool
		PidsLimit, Memory, MemorySwap                                    int64
		Devices, PortBindings                                            any
		Ulimits                                                          []struct{ Name string }
	}
}

// faults are the boxes of HARDENING 5.2 that a container does not tick.
func (c created) faults(apparmor bool) []string {
	h := c.HostConfig
	options := strings.Join(h.SecurityOpt, " ")
	user, _, _ := strings.Cut(c.Config.User, ":")
	var out []string
	for _, box := range []struct {
		name string
		ok   bool
	}{
		{"no capability is added", len(h.CapAdd) == 0},
		{"every capability is dropped", slices.Equal(h.CapDrop, []string{"ALL"})},
		{"no-new-privileges", strings.Contains(options, "no-new-privileges")},
		{"a seccomp profile of our own", strings.Contains(options, "seccomp={")},
		{"AppArmor", !apparmor || c.AppArmorProfile != "" && c.AppArmorProfile != "unconfined"},
		{"the root is read-only", h.ReadonlyRootfs},
		{"processes are bounded", h.PidsLimit > 0},
		{"memory is bounded", h.Memory > 0 && h.MemorySwap == h.Memory},
		{"not privileged", !h.Privileged},
		{"no network of the engine's", h.NetworkMode == "none" && !h.PublishAllPorts},
		{"no namespace of the host's", h.PidMode == "" && h.UTSMode == "" && h.IpcMode == "private" && h.CgroupnsMode == "private" && h.UsernsMode != "host"},
		{"no device", h.Devices == nil || fmt.Sprint(h.Devices) == "[]"},
		{"the user is not root", user != "" && user != "0" && user != "root"},
		{"the image is named by digest", strings.HasPrefix(c.Config.Image, "sha256:")},
		{"kernel files are masked", slices.Contains(h.MaskedPaths, "/proc/interrupts") && slices.Contains(h.MaskedPaths, "/sys/kernel")},
		{"core dumps and locked memory are bounded", len(h.Ulimits) >= 2},
		{"the engine's socket is not mounted", !slices.ContainsFunc(c.Mounts, func(m struct{ Source, Destination string }) bool {
			return strings.Contains(m.Source, "docker.sock") || m.Source == "/" || m.Source == "/run" || m.Source == "/var/run"
		})},
	} {
		if !box.ok {
			out = append(out, box.name)
		}
	}
	return out
}

func spec() escape.Case {
	return escape.Case{
		ID: "BK-01", Class: "Docker spec", Attack: "look at the created containers with the engine's eyes for every box of the list; a container as docker run makes it must be found wanting",
		Source: "HARDENING 5.2", Layers: []string{"containers"}, Only: []escape.Column{escape.Docker},
		Host: func(w *escape.World) []escape.Finding {
			e := EngineOf(w)
			var info struct{ SecurityOptions []string }
			if err := e.Ask(http.MethodGet, "/info", nil, &info); err != nil {
				return escape.NoHost("ask the engine", err)
			}
			apparmor := strings.Contains(strings.Join(info.SecurityOptions, " "), "name=apparmor")
			// Root's and the user's attempts share an engine.
			name := fmt.Sprintf("bk01-%d", os.Getuid())
			res := w.Outcome([]string{"-d", "--name", name, "--memory", "256MiB"}, "sleep", "60")
			defer func() { _, _ = w.Exec(w.Cloister, "stop", name) }() // the world's end would too
			if res.Status != 0 {
				return []escape.Finding{escape.Found("it runs", false, "status %d: %s", res.Status, res.Stderr)}
			}
			c, err := e.of(name, "init")
			if err != nil {
				return escape.NoHost("look at the container", err)
			}
			gate, err := e.of(name, "gate")
			if err != nil {
				return escape.NoHost("look at the gate", err)
			}
			out := []escape.Finding{
				escape.Found("the agent's container", len(c.faults(apparmor)) == 0, "%v", c.faults(apparmor)),
				escape.Found("the gate sees neither network nor files", gate.HostConfig.NetworkMode == "none" && gate.HostConfig.ReadonlyRootfs && len(gate.Mounts) == 2, "%+v", gate),
			}
			var plain struct{ ID string }
			if err := e.Ask(http.MethodPost, "/containers/create", map[string]any{"Image": c.Image, "Cmd": []string{"true"}}, &plain); err != nil {
				return escape.NoHost("control: make a plain container", err)
			}
			var usual created
			err = e.Ask(http.MethodGet, "/containers/"+plain.ID+"/json", nil, &usual)
			if derr := e.Ask(http.MethodDelete, "/containers/"+plain.ID, nil, nil); err == nil {
				err = derr
			}
			if err != nil {
				return escape.NoHost("control: look at a plain container", err)
			}
			return append(out, escape.Found("control: a plain container is found wanting", len(usual.faults(apparmor)) >= 10, "%v", usual.faults(apparmor)))
		},
	}
}

// of gives the container of a role of a named cloister.
func (e Engine) of(name, role string) (created, error) {
	var c created
	filters, err := json.Marshal(map[string][]string{"label": {"cloister.name=" + name, "cloister.role=" + role}})
	if err != nil {
		return c, err
	}
	var list []struct {
		ID string `json:"Id"`
	}
	if err := e.Ask(http.MethodGet, "/containers/json?filters="+url.QueryEscape(string(filters)), nil, &list); err != nil {
		return c, err
	}
	if len(list) != 1 {
		return c, fmt.Errorf("%d containers of %s with the role %s", len(list), name, role)
	}
	return c, e.Ask(http.MethodGet, "/containers/"+list[0].ID+"/json", nil, &c)
}
