package demand_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"cloister/devcontainer/demand"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/variables"
)

const project, home = "/home/ada/src/app", "/home/ada"

func judged(t *testing.T, source demand.Source, text string) demand.Result {
	t.Helper()
	v, err := jsonc.Parse("d.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": home}
	local := func(n string) (string, bool) { v, ok := env[n]; return v, ok }
	res, err := demand.Judge(demand.Input{
		Source: source, Name: "d.json", Config: v, Home: home, Project: project, Reserved: []string{"SSL_CERT_FILE"},
		Vars:  variables.Set{LocalEnv: local, LocalWorkspaceFolder: project, ContainerWorkspaceFolder: "/workspaces/app"},
		Given: func(n string) bool { _, ok := local(n); return ok },
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return res
}

// TestRefused has a demand in each row: none of them may be in what is left.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, key, says string }{
		{`{"privileged":true}`, "privileged", "every power"},
		{`{"capAdd":["SYS_ADMIN"]}`, "capAdd[0]", "capability"},
		{`{"securityOpt":["seccomp=unconfined"]}`, "securityOpt[0]", "filter"},
		{`{"securityOpt":["no-new-privileges:false"]}`, "securityOpt[0]", "filter"},
		{`{"mounts":["source=/var/run/docker.sock,target=/var/run/docker.sock,type=bind"]}`, "mounts[0]", "the cloister's own"},
		{`{"mounts":["source=/var/run/docker.sock,target=/s,type=bind"]}`, "mounts[0]", "container engine"},
		{`{"mounts":["src=/run/podman/podman.sock,dst=/s"]}`, "mounts[0]", "container engine"},
		{`{"mounts":["source=${localEnv:HOME}/.ssh,target=/k,type=bind,readonly"]}`, "mounts[0]", "credentials"},
		{`{"mounts":["source=${localEnv:HOME}/.config/gh,target=/k,type=bind"]}`, "mounts[0]", "credentials"},
		{`{"mounts":[{"type":"bind","source":"${localEnv:HOME}","target":"/k"}]}`, "mounts[0]", "home"},
		{`{"mounts":[{"type":"bind","source":"/home","target":"/k"}]}`, "mounts[0]", "system folder"},
		{`{"mounts":[{"type":"bind","source":"/","target":"/k"}]}`, "mounts[0]", "all of this machine"},
		{`{"mounts":[{"type":"bind","source":"/etc","target":"/k"}]}`, "mounts[0]", "system folder"},
		{`{"mounts":[{"type":"bind","source":"/proc/1/root","target":"/k"}]}`, "mounts[0]", "system folder"},
		{`{"mounts":[{"type":"bind","source":"/srv/data","target":"/k"}]}`, "mounts[0]", "outside the project"},
		{`{"mounts":[{"type":"bind","source":"${localWorkspaceFolder}/../x","target":"/k"}]}`, "mounts[0]", "outside the project"},
		{`{"mounts":[{"type":"bind","source":"${containerEnv:X}","target":"/k"}]}`, "mounts[0]", "no absolute path"},
		{`{"mounts":[{"type":"volume","source":"v","target":"/etc"}]}`, "mounts[0]", "own"},
		{`{"mounts":[{"type":"volume","source":"v","target":"/home/ada"}]}`, "mounts[0]", "project"},
		{`{"mounts":[{"type":"volume","source":"v","target":"/home/ada/src/app/.git"}]}`, "mounts[0]", "project"},
		{`{"mounts":[{"type":"volume","source":"../../x","target":"/v"}]}`, "mounts[0]", "name"},
		{`{"mounts":[{"type":"volume","source":"v","target":"/v","volume-driver":"local","o":"bind"}]}`, "mounts[0]", "not known"},
		{`{"mounts":["type=volume,source=v,target=/v,volume-opt=device=/etc"]}`, "mounts[0]", "not known"},
		{`{"mounts":["type=npipe,source=v,target=/v"]}`, "mounts[0]", "none that a cloister has"},
		{`{"workspaceMount":"source=/,target=/w,type=bind"}`, "workspaceMount", "nothing else of this machine"},
		{`{"workspaceMount":"source=${localWorkspaceFolder}/..,target=/w,type=bind"}`, "workspaceMount", "nothing else of this machine"},
		{`{"workspaceMount":"source=v,target=/w,type=volume"}`, "workspaceMount", "nothing else of this machine"},
		{`{"workspaceFolder":"/etc"}`, "workspaceFolder", "system inside"},
		{`{"workspaceFolder":"/"}`, "workspaceFolder", "system inside"},
		{`{"workspaceFolder":"x"}`, "workspaceFolder", "absolute"},
		{`{"remoteUser":"root"}`, "remoteUser", "root"},
		{`{"containerUser":"0:0"}`, "containerUser", "root"},
		{`{"initializeCommand":"x"}`, "initializeCommand", "this machine"},
		{`{"build":{"dockerfile":"D","options":["--network=host"]}}`, "build.options[0]", "flags of a build"},
		{`{"features":{"https://x.example.com/f.tgz":{}}}`, "features.https://x.example.com/f.tgz", "no digest"},
		{`{"features":{"docker-in-docker":{}}}`, "features.docker-in-docker", "REGISTRY/PATH:VERSION"},
		{`{"features":{"registry.example.com/f:1":{}}}`, "features.registry.example.com/f:1", "no source"},
		{`{"features":{"registry.example.com/F:1":{}}}`, "features.registry.example.com/F:1", "lower case"},
		{`{"features":{"x.example.com/f:1\nRUN evil":{}}}`, "features.x.example.com/f:1\nRUN evil", "REGISTRY/PATH:VERSION"},
		{`{"build":{"dockerfile":"D","args":{"HTTPS_PROXY":"http://x"}}}`, "build.args.HTTPS_PROXY", "way out"},
		{`{"build":{"dockerfile":"D","cacheFrom":"x.example.com/c"}}`, "build.cacheFrom", "no cache"},
		{`{"features":{"../../f":{}}}`, "features.../../f", "own folder"},
		{`{"features":{"./../../f":{}}}`, "features../../../f", "own folder"},
		{`{"containerEnv":{"SSL_CERT_FILE":"/x"}}`, "containerEnv.SSL_CERT_FILE", "own"},
		{`{"containerEnv":{"A x\nFROM evil.example.com/x\nENV B":"c"}}`, "containerEnv.A x\nFROM evil.example.com/x\nENV B", "no variable's name"},
		{`{"containerEnv":{"A\rB":"c"}}`, "containerEnv.A\rB", "no variable's name"},
		{`{"containerEnv":{"$A":"c"}}`, "containerEnv.$A", "no variable's name"},
		{`{"containerEnv":{"HOME":"/x"}}`, "containerEnv.HOME", "own"},
		{`{"remoteEnv":{"https_proxy":"http://x"}}`, "remoteEnv.https_proxy", "way out"},
		{`{"remoteEnv":{"ANTHROPIC_BASE_URL":"http://x"}}`, "remoteEnv.ANTHROPIC_BASE_URL", "agent"},
		{`{"remoteEnv":{"AMP_URL":"http://x"}}`, "remoteEnv.AMP_URL", "agent"},
		{`{"remoteEnv":{"GOOSE_PROVIDER__HOST":"http://x"}}`, "remoteEnv.GOOSE_PROVIDER__HOST", "agent"},
		{`{"containerEnv":{"X":["y"]}}`, "containerEnv.X", "text"},
		{`{"forwardPorts":[22]}`, "forwardPorts[0]", "below 1024"},
		{`{"forwardPorts":["x"]}`, "forwardPorts[0]", "no port"},
		{`{"appPort":"0.0.0.0:8080:8080"}`, "appPort[0]", "addresses of this machine"},
	} {
		res := judged(t, demand.File, c.text)
		at := slices.IndexFunc(res.Findings, func(f demand.Finding) bool { return f.Key == c.key && f.Outcome == demand.Refused })
		if at < 0 || !strings.Contains(res.Findings[at].Reason, c.says) || res.Findings[at].Line != 1 {
			t.Errorf("%s: %+v", c.text, res.Findings)
			continue
		}
		left, _ := json.Marshal(res.Config)
		if c.key == "initializeCommand" {
			continue // it is offered as a host command
		}
		if value := res.Findings[at].Value; len(value) > 2 && strings.Contains(string(left), strings.Trim(value, `"[]{}`)) {
			t.Errorf("%s: left %s", c.text, left)
		}
	}
}

func TestRunArgs(t *testing.T) {
	refused := [][]string{
		{"--privileged"}, {"--privileged=true"}, {"--network=host"}, {"--network", "host"}, {"--net", "container:x"}, {"--pid=host"}, {"--ipc", "host"},
		{"--uts=host"}, {"--userns=host"}, {"--cgroupns=host"}, {"--cap-add=ALL"}, {"--cap-add", "ALL"}, {"--security-opt", "seccomp=unconfined"},
		{"--device=/dev/kvm"}, {"--gpus", "all"}, {"-v", "/:/h"}, {"-v/:/h"}, {"--volume=/:/h"}, {"--mount", "type=bind,src=/,dst=/h"},
		{"--volumes-from", "x"}, {"--add-host=x:1.2.3.4"}, {"--dns", "1.1.1.1"}, {"--sysctl", "a=b"}, {"--runtime=runc"}, {"--group-add", "docker"},
		{"-p", "80:80"}, {"-P"}, {"--env-file", "/etc/passwd"}, {"-e", "SECRET"}, {"--env=HTTP_PROXY=x"}, {"--frobnicate", "x"}, {"--frobnicate=x"},
		{"stray"}, {"-itv", "/:/h"}, {"--cgroup-parent=/"}, {"--link=x"}, {"--memory"}, {"--env", "--privileged"}, {"--security-opt=label=disable"},
	}
	for _, args := range refused {
		text, _ := json.Marshal(map[string]any{"runArgs": args})
		res := judged(t, demand.File, string(text))
		if len(res.Findings) == 0 || res.Findings[0].Outcome != demand.Refused || len(res.Config["runArgs"].([]any)) > 0 {
			t.Errorf("%v: %+v, left %v", args, res.Findings, res.Config["runArgs"])
		}
	}
	res := judged(t, demand.File, `{"runArgs":["--init","-e","A=b","--env=C=d","--memory=2g","--cpus","2","--network=none","--name","x","--rm","-it","--cap-drop=ALL"]}`)
	if got, _ := json.Marshal(res.Config["runArgs"]); string(got) != `["--init","--env=A=b","--env=C=d","--memory=2g","--cpus=2","--network=none","--cap-drop=ALL"]` {
		t.Errorf("left %s: %+v", got, res.Findings)
	}
}

func TestHonouredAndChanged(t *testing.T) {
	res := judged(t, demand.File, `{"name":"x","image":"debian:12",
 "containerEnv":{"A":"${localEnv:TOKEN:none}","B":"${localWorkspaceFolderBasename}"},
 "mounts":["source=cache,target=/cache,type=volume","source=${localWorkspaceFolder}/data,target=/data,type=bind"],
 "forwardPorts":[3000,"db:5432"],"postCreateCommand":{"a":"x","b":["y"]},"features":{"registry.example.com/f:1":{},"other.example.com/g:1":{}},
 "forwardPort":1}`)
	want := map[string]demand.Outcome{
		"image": demand.Honoured, "containerEnv": demand.Changed, "containerEnv.B": demand.Honoured, "mounts[0]": demand.Changed, "mounts[1]": demand.Changed,
		"forwardPorts[0]": demand.Honoured, "forwardPorts[1]": demand.Changed, "postCreateCommand": demand.Honoured,
		"features.registry.example.com/f:1": demand.Refused, "features.other.example.com/g:1": demand.Refused, "forwardPort": demand.Kept,
	}
	for key, o := range want {
		if !slices.ContainsFunc(res.Findings, func(f demand.Finding) bool { return f.Key == key && f.Outcome == o }) {
			t.Errorf("%s is not %s: %+v", key, o, res.Findings)
		}
	}
	if env := res.Config["containerEnv"].(map[string]any); env["A"] != "none" || env["B"] != "app" {
		t.Errorf("variables: %v", env)
	}
	if at := slices.IndexFunc(res.Findings, func(f demand.Finding) bool { return f.Key == "forwardPort" }); res.Findings[at].Hint != "did you mean forwardPorts?" || res.Findings[at].Line != 5 {
		t.Errorf("%+v", res.Findings[at])
	}
}

func TestFeatureAsksForPowers(t *testing.T) {
	res := judged(t, demand.Feature, `{"id":"f","privileged":true,"capAdd":["ALL"],"entrypoint":"/e","mounts":["source=/,target=/h,type=bind"],"containerEnv":{"PATH":"/f:${containerEnv:PATH}"}}`)
	refused := 0
	for _, f := range res.Findings {
		if f.Outcome == demand.Refused {
			refused++
		}
	}
	if refused != 3 || len(res.Config["capAdd"].([]any)) > 0 || len(res.Config["mounts"].([]any)) > 0 {
		t.Errorf("%+v", res.Findings)
	}
}

func TestShapes(t *testing.T) {
	for text, says := range map[string]string{
		`{"image":1}`:                           "image is a number, and must be a string",
		"{\n\"mounts\":{}}":                     "d.json:2:10: mounts is an object",
		`{"containerEnv":{"A":"${localEnv:}"}}`: "",
		`{"containerEnv":{"A":"${localEnv}"}}`:  "names no variable",
		`[]`:                                    "must be an object",
	} {
		v, err := jsonc.Parse("d.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = demand.Judge(demand.Input{Name: "d.json", Config: v, Vars: variables.Set{LocalEnv: func(string) (string, bool) { return "", false }}})
		var placed *jsonc.Error
		if says == "" && err != nil || says != "" && (!errors.As(err, &placed) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
