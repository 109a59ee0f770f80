package demand_test

import (
	"slices"
	"testing"

	"cloister/devcontainer/compose"
	"cloister/devcontainer/demand"
)

func composed(t *testing.T, text string) []demand.Finding {
	t.Helper()
	v, err := compose.Parse("c.yml", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	in := demand.ComposeInput{Input: demand.Input{Name: "c.yml", Config: v, Home: "/home/u", Project: "/home/u/app"}, Dir: "/home/u/app/.devcontainer"}
	findings, err := demand.Compose(in)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return findings
}

// TestServicesAskForPowers gives what compose has a word for, each in a service of its own.
func TestServicesAskForPowers(t *testing.T) {
	for text, key := range map[string]string{
		"privileged: true":                     "privileged",
		"privileged: ${P:-true}":               "privileged",
		"cap_add: [SYS_ADMIN]":                 "cap_add[0]",
		"security_opt: [seccomp:unconfined]":   "security_opt[0]",
		"network_mode: host":                   "network_mode",
		"network_mode: container:other":        "network_mode",
		"network_mode: ${M}":                   "network_mode",
		"pid: host":                            "pid",
		"ipc: host":                            "ipc",
		"ipc: shareable":                       "ipc",
		"uts: host":                            "uts",
		"userns_mode: host":                    "userns_mode",
		"cgroup: host":                         "cgroup",
		"cgroup_parent: /":                     "cgroup_parent",
		"devices: [/dev/kvm]":                  "devices[0]",
		"gpus: all":                            "gpus",
		"runtime: runc":                        "runtime",
		"volumes: [\"/:/host\"]":               "volumes[0]",
		"volumes: [\"~/.ssh:/keys\"]":          "volumes[0]",
		"volumes: [\"${HOME}/.ssh:/keys\"]":    "volumes[0]",
		"volumes: [\"../..:/up\"]":             "volumes[0]",
		"volumes: [\"/home/u/.aws:/keys:ro\"]": "volumes[0]",
		"volumes: [\"/var/run/docker.sock:/var/run/docker.sock\"]":           "volumes[0]",
		"volumes: [{type: bind, source: /etc, target: /e}]":                  "volumes[0]",
		"volumes: [{type: npipe, source: /etc, target: /e}]":                 "volumes[0]",
		"volumes: [\"data:/proc\"]":                                          "volumes[0]",
		"volumes: [\"/sys/fs\"]":                                             "volumes[0]",
		"volumes: [\"data:/\"]":                                              "volumes[0]",
		"volumes: [\"data:/etc/../etc\"]":                                    "volumes[0]",
		"volumes: [\"data:/etc/ssl/certs\"]":                                 "volumes[0]",
		"volumes: [\"data:/.cloister/x\"]":                                   "volumes[0]",
		"volumes: [\"data:/home/u/app/.git\"]":                               "volumes[0]",
		"volumes: [\"data:/home\"]":                                          "volumes[0]",
		"volumes: [\"data:${T:-/proc}\"]":                                    "volumes[0]",
		"volumes: [\"./x:/etc/resolv.conf:ro\"]":                             "volumes[0]",
		"volumes: [{type: tmpfs, target: /dev/shm}]":                         "volumes[0]",
		"volumes: [\"..:/work\", \"modules:/work/modules/\"]":                "volumes[1]",
		"tmpfs: /proc/self":                                                  "tmpfs[0]",
		"tmpfs: [/data, ../..]":                                              "tmpfs[1]",
		"secrets: [{source: s, target: ../../etc/hosts}]":                    "secrets[0]",
		"configs: [{source: s, target: /etc/hosts}]":                         "configs[0]",
		"volumes_from: [\"container:other\"]":                                "volumes_from[0]",
		"use_api_socket: true":                                               "use_api_socket",
		"provider: {type: evil}":                                             "provider",
		"extends: {file: ../../other.yml, service: x}":                       "extends",
		"extra_hosts: [\"a:1.2.3.4\"]":                                       "extra_hosts[0]",
		"dns: 8.8.8.8":                                                       "dns",
		"sysctls: {net.ipv4.ip_forward: 1}":                                  "sysctls",
		"env_file: [/etc/passwd]":                                            "env_file[0]",
		"env_file: {path: ../../x}":                                          "env_file[0]",
		"environment: [TOKEN]":                                               "environment.TOKEN",
		"environment: {TOKEN: }":                                             "environment.TOKEN",
		"environment: {TOKEN: \"${TOKEN}\"}":                                 "environment.TOKEN",
		"environment: [HTTP_PROXY=http://x]":                                 "environment.HTTP_PROXY",
		"build: /etc":                                                        "build",
		"build: https://x.example.com/a.git":                                 "build",
		"build: {context: ../..}":                                            "build.context",
		"build: {context: ., dockerfile: ../../D}":                           "build.dockerfile",
		"build: {context: ., network: host}":                                 "build.network",
		"build: {context: ., privileged: true}":                              "build.privileged",
		"build: {context: ., ssh: [default]}":                                "build.ssh",
		"build: {context: ., secrets: [x]}":                                  "build.secrets",
		"build: {context: ., additional_contexts: {x: /etc}}":                "build.additional_contexts",
		"build: {context: ., entitlements: [security.insecure]}":             "build.entitlements",
		"deploy: {resources: {reservations: {devices: [{driver: nvidia}]}}}": "deploy.resources.reservations.devices",
		"post_start: [{command: x, privileged: true}]":                       "post_start[0].privileged",
		"logging: {driver: syslog}":                                          "logging",
		"somethingnew: true":                                                 "somethingnew",
	} {
		findings := composed(t, "services:\n  db:\n    "+text+"\n")
		if !slices.ContainsFunc(findings, func(f demand.Finding) bool {
			return f.Key == "services.db."+key && f.Outcome == demand.Refused && f.Line == 3 && f.File == "c.yml"
		}) {
			t.Errorf("%s is not refused by name and line: %+v", text, findings)
		}
	}
	for text, key := range map[string]string{
		"volumes: {v: {driver_opts: {o: bind, device: /}}}": "volumes.v.driver_opts",
		"volumes: {v: {external: true}}":                    "volumes.v.external",
		"volumes: {v: {driver: nfs}}":                       "volumes.v.driver",
		"networks: {n: {driver: macvlan}}":                  "networks.n.driver",
		"networks: {n: {external: true}}":                   "networks.n.external",
		"secrets: {s: {file: /etc/shadow}}":                 "secrets.s.file",
		"secrets: {s: {environment: TOKEN}}":                "secrets.s.environment",
		"include: [../../other.yml]":                        "include",
		"somethingnew: 1":                                   "somethingnew",
	} {
		findings := composed(t, text+"\n")
		if !slices.ContainsFunc(findings, func(f demand.Finding) bool {
			return f.Key == key && f.Outcome == demand.Refused && f.Line == 1
		}) {
			t.Errorf("%s is not refused: %+v", text, findings)
		}
	}
}

// TestServicesAsUsual: of a usual file, nothing is refused.
func TestServicesAsUsual(t *testing.T) {
	const usual = `version: "3.8"
x-common: &common
  restart: unless-stopped
services:
  app:
    <<: *common
    build: {context: .., dockerfile: .devcontainer/Dockerfile, args: {A: b}}
    volumes: ["..:/workspace:cached", "cache:/cache", "/anonymous"]
    command: sleep infinity
    network_mode: service:db
    depends_on: {db: {condition: service_healthy}}
    environment: {DATABASE_URL: "postgres://postgres:$$x@localhost/postgres"}
    security_opt: ["no-new-privileges:true"]
    privileged: false
  db:
    image: postgres:16
    volumes: [{type: volume, source: data, target: /var/lib/postgresql/data}, {type: tmpfs, target: /t}]
    env_file: .env
    ports: ["5432:5432"]
    healthcheck: {test: [CMD, pg_isready], interval: 1s}
volumes: {cache: , data: {driver: local}}
networks: {default: {driver: bridge}}
`
	findings := composed(t, usual)
	for _, f := range findings {
		if f.Outcome == demand.Refused {
			t.Errorf("%+v", f)
		}
	}
	v, err := compose.Parse("c.yml", []byte(usual))
	if err != nil {
		t.Fatal(err)
	}
	if got := demand.ReferredTo(v); !slices.Equal(got, []string{"../.devcontainer/Dockerfile", "../.dockerignore", ".env"}) {
		t.Errorf("%q", got)
	}
}
