package corpus

import (
	_ "embed"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"cloister/escape"
)

// serviceLook is what a hostile service finds of the host, of the agent and of others. The
// first word is where a server of this machine listens.
//
//go:embed scripts/service_look.py
var serviceLook string

// serviceServer answers each connection with a word.
const serviceServer = `import socket, sys
s = socket.create_server(("0.0.0.0", 7000))
open("/data/of-the-other", "w").close()
while True:
    try:
        c, _ = s.accept()
        c.sendall(sys.argv[1].encode())
        c.close()
    except OSError:
        pass
`

// services is a compose file whose service asks for all there is, beside one that only serves.
//
//go:embed scripts/services.yaml
var services string

// serviceSpy tries all the while to open what the first process of its cloister has: natively
// that shares the memory of the process that began it. Its own it can open.
const serviceSpy = `import os, time
print("own", len(open("/proc/self/mem", "rb").name))
while True:
    for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
        for part in "mem", "environ", "maps", "fd":
            try:
                text = os.listdir("/proc/%s/fd" % pid) if part == "fd" else open("/proc/%s/%s" % (pid, part), "rb").fileno()
                print("opened", pid, part, text, open("/proc/%s/comm" % pid).read().strip(), flush=True)
            except OSError:
                pass
    time.sleep(0.0002)
`

const otherServices = `services:
  app: {image: cloister-base, depends_on: [db]}
  db:
    image: cloister-base
    command: [python3, /x/serve.py, other]
    volumes: ["./serve.py:/x/serve.py:ro", "data:/data"]
volumes: {data: }
`

func sc02c() escape.Case {
	return escape.Case{
		ID: "SC-02c", Class: "services of a devcontainer",
		Attack: "a compose file whose service asks for the host's network, processes, root, engine and devices, privileges, a server of this machine by address, name, alias, proxy and extra host, another project's service beside it and its volume by name: it has what any cloister has, and each demand is named by its line",
		Source: "compose-spec; docs/decisions/0068", Layers: []string{"launcher"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			var asked atomic.Int64
			canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
			defer canary.Close()
			port := canary.URL[strings.LastIndexByte(canary.URL, ':')+1:]
			other := filepath.Join(filepath.Dir(r.project), "other")
			texts := map[string]string{
				r.project + "/secret":                           "of the agent",
				r.project + "/.devcontainer/docker-compose.yml": strings.NewReplacer("PORT", port, "PROJECT", r.project).Replace(services),
				r.project + "/.devcontainer/look.py":            serviceLook,
				r.project + "/.devcontainer/spy.py":             serviceSpy,
				other + "/.devcontainer/docker-compose.yml":     otherServices,
			}
			for _, dir := range []string{r.project, other} {
				texts[dir+"/.devcontainer/devcontainer.json"] = `{"dockerComposeFile":"docker-compose.yml","service":"app"}`
				texts[dir+"/.devcontainer/serve.py"] = serviceServer
			}
			for name, text := range texts {
				if err := r.w.Write(name, text); err != nil {
					return escape.NoHost("write "+name, err)
				}
			}
			agreed, agreedOther := r.cloister("devcontainer", "trust", "-C", r.project), r.cloister("devcontainer", "trust", "-C", other)
			out := []escape.Finding{found("each demand is named by its line", agreed.Status == 0 && agreedOther.Status == 0 && len(unnamed(agreed.Stdout)) == 0,
				"not named: %q in %s%s", unnamed(agreed.Stdout), agreed.Stdout, agreed.Stderr)}
			if r.w.Kind.Isolation == "gvisor" || r.w.Kind.Images == "" {
				res := r.cloister("run", "-C", r.project, "--devcontainer", "--", "touch", "sc02c-ran")
				return append(out, found("without a way between cloisters, or the image, none starts", res.Status == 125 && !r.has("sc02c-ran") && asked.Load() == 0 &&
					(strings.Contains(res.Stderr, "services beside the agent") || strings.Contains(res.Stderr, "cloister-base")), "%d %s", res.Status, res.Stderr))
			}
			return append(out, r.services(other, &asked)...)
		}),
	}
}

// unnamed are the demands that a list of refusals lacks.
func unnamed(list string) []string {
	var out []string
	for _, key := range []string{"privileged", "network_mode", "pid", "ipc", "cap_add[0]", "security_opt[0]", "devices[0]", "dns", "extra_hosts[0]",
		"environment.TOKEN", "environment.HTTP_PROXY", "volumes[0]", "volumes[1]", "volumes[2]"} {
		if !strings.Contains(list, " services.evil."+key+" ") {
			out = append(out, key)
		}
	}
	for _, key := range []string{"volumes.data.external", "volumes.data.driver_opts", "networks.front.driver"} {
		if !strings.Contains(list, " "+key+" ") {
			out = append(out, key)
		}
	}
	return out
}

// services starts both projects beside each other, twice, and reads what the hostile service
// found.
func (r *ruled) services(other string, asked *atomic.Int64) []escape.Finding {
	ready, over := filepath.Join(other, "ready"), filepath.Join(other, "over")
	waits := `python3 -c 'import socket; print(socket.create_connection(("db", 7000), 20).recv(9).decode())' >ready; while [ ! -e over ]; do sleep 0.1; done`
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.cloister("run", "-C", other, "--devcontainer", "--", "sh", "-c", waits)
	}()
	defer func() {
		_ = os.WriteFile(over, nil, 0o600) // what ends it otherwise is the test's end
		<-done
	}()
	held := r.w.Until(patient, func() bool { text, _ := os.ReadFile(ready); return len(text) > 0 })
	word, _ := os.ReadFile(ready)
	asks := `mkdir -p ~; : >~/of-the-agent; python3 -c 'import socket; print(socket.create_connection(("friend", 7000), 20).recv(9).decode())'`
	named := r.cloister("run", "-C", r.project, "--devcontainer", "--allow", "friend:7000", "--", "touch", "sc02c-named")
	first := r.cloister("run", "-C", r.project, "--devcontainer", "--", "sh", "-c", asks)
	second := r.cloister("run", "-C", r.project, "--devcontainer", "--", "true")
	said := func(service string) (text string) {
		logs, _ := filepath.Glob(filepath.Join(r.base, "state", "cloister", "logs", "*-"+service+"-*.log"))
		for _, name := range logs {
			one, _ := os.ReadFile(name)
			text += string(one)
		}
		return text
	}
	text, spied := said("evil"), said("spy")
	line := func(name string) string {
		for l := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(l, name+" "); ok {
				return strings.TrimSpace(rest)
			}
		}
		return "(nothing)"
	}
	return []escape.Finding{
		found("both start", first.Status == 0 && second.Status == 0, "%d %s%s, %d %s", first.Status, first.Stdout, first.Stderr, second.Status, second.Stderr),
		found("no service takes the name of a host that policy has", named.Status == 125 && !r.has("sc02c-named") && strings.Contains(named.Stderr, "is called friend inside"),
			"%d %s", named.Status, named.Stderr),
		found("it has no capability, no new privileges, a filter", strings.Contains(line("caps"), "CapEff:\\t0000000000000000") &&
			strings.Contains(line("caps"), "NoNewPrivs:\\t1") && strings.Contains(line("caps"), "Seccomp:\\t2"), "%s", text),
		found("it sees nothing of the host, of the project and of the agent's home", line("host") == "" && line("project") == "" && line("home") == "", "%s", text),
		found("it has no variable of the host's", line("token") == "None None", "%s", text),
		found("it has a network of its own", line("net") == "['lo']", "%s", text),
		found("it reaches no server of this machine", asked.Load() == 0, "asked %d times: %s", asked.Load(), text),
		found("it reaches no other project's service", line("near") == "[]" && !strings.Contains(line("named"), "other"), "%s", text),
		found("it has no other project's volume", !strings.Contains(text, "poisoned") && !exists(filepath.Join(r.base, "sc02c")), "%s", text),
		found("it opens nothing of its cloister's first process, while others start beside it", !strings.Contains(spied, "opened"), "%.500s", spied),
		found("control: it looked, at its own", strings.HasPrefix(spied, "own "), "%.500s", spied),
		found("control: its own volume is kept", line("marks") == "2", "%s", text),
		found("control: it reaches the service beside it, and so does the agent", line("friend") == "friend" && strings.Contains(first.Stdout, "friend"), "%s%s", text, first.Stdout),
		found("control: the other project's service is there, for its own agent", held && strings.TrimSpace(string(word)) == "other", "%q", word),
	}
}
