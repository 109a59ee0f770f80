package realtest

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// usual is a devcontainer of a usual kind: its files, and what the agent's test says there.
type usual struct {
	files map[string]string
	test  string
	want  []string
}

// usualDevcontainers are one of an image alone, one of a Dockerfile with a feature and a
// command, and one of a compose file with a database.
func usualDevcontainers(database, bin string) map[string]usual {
	const compose = `services:
  app:
    image: @IMAGE
    volumes: ["..:/workspace:cached"]
    command: sleep infinity
    environment: {PGHOST: db, PGUSER: agent, PGDATABASE: postgres}
    depends_on: {db: {condition: service_healthy}}
  db:
    image: @IMAGE
    restart: unless-stopped
    command:
      - /bin/sh
      - -ec
      - |
        [ -s /data/PG_VERSION ] || BIN/initdb -A trust -U agent -D /data
        cp /etc/team/pg_hba.conf /data/pg_hba.conf
        exec BIN/postgres -D /data -k /tmp -c listen_addresses='*'
    volumes: ["postgres-data:/data", "./pg_hba.conf:/etc/team/pg_hba.conf:ro"]
    healthcheck: {test: [CMD, BIN/pg_isready, -h, /tmp, -U, agent], interval: 2s, retries: 60}
volumes: {postgres-data: }
`
	return map[string]usual{
		"image": {
			files: map[string]string{"devcontainer.json": `{"image": "cloister-base", "containerEnv": {"TEAM": "of the team"}}`},
			test:  "echo $TEAM; node add.test.js", want: []string{"of the team", "RIGHT"},
		},
		"Dockerfile": {
			files: map[string]string{
				"devcontainer.json":               `{"build": {"dockerfile": "Dockerfile"}, "features": {"./greet": {"word": "hello"}}, "postCreateCommand": "echo created >../created || echo created >/tmp/created"}`,
				"Dockerfile":                      "FROM cloister-base\nRUN echo of a Dockerfile >/usr/local/team\n",
				"greet/devcontainer-feature.json": `{"id": "greet", "version": "1.0.0", "name": "greet", "options": {"word": {"type": "string", "default": "none"}}}`,
				"greet/install.sh":                "#!/bin/sh\necho \"$WORD of a feature\" >/usr/local/greeting\n",
			},
			test: "cat /usr/local/team /usr/local/greeting /tmp/created ../created 2>/dev/null; node add.test.js",
			want: []string{"of a Dockerfile", "hello of a feature", "created", "RIGHT"},
		},
		"compose": {
			files: map[string]string{
				"devcontainer.json":  `{"dockerComposeFile": "docker-compose.yml", "service": "app", "workspaceFolder": "/workspace"}`,
				"docker-compose.yml": strings.NewReplacer("@IMAGE", database, "BIN", bin).Replace(compose),
				"pg_hba.conf":        "local all all trust\nhost all all 203.0.113.0/24 trust\n",
			},
			test: "node add.test.js && psql -v ON_ERROR_STOP=1 -tAc 'create table if not exists sums (n int); insert into sums values (40 + 2); select n from sums'",
			want: []string{"RIGHT", "42"},
		},
	}
}

// TestEngineDevcontainers has the agent work in three usual devcontainers, in containers: its
// test is of the team's environment, and reaches the team's database.
func TestEngineDevcontainers(t *testing.T) {
	e := engineOf(t)
	const database = "realtest/postgres:1"
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		need(t, "postgres", "initdb")
	}
	bin := filepath.Dir(found[len(found)-1])
	version := filepath.Base(filepath.Dir(bin))
	kinds := usualDevcontainers(database, bin)
	if os.Getuid() != 0 && os.Getenv("CLOISTER_TEST_LONG") == "" {
		delete(kinds, "image") // root's have shown them; an engine is slow
		delete(kinds, "Dockerfile")
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.agent("claude")
			w.contained(e)
			if kind == "compose" {
				w.step("image", "build", "--from-host", "--agent", "claude", "--package", "postgresql-"+version, "-t", database)
			}
			w.inDevcontainer(kinds[kind])
		})
	}
}

// step runs a command of the binary's that has to succeed.
func (w *world) step(words ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), storyTime)
	defer cancel()
	w.configure()
	if res := w.cloister(ctx, words...); res.status != 0 {
		w.t.Fatalf("cloister %s: status %d\n%s%s", strings.Join(words, " "), res.status, res.stdout, res.stderr)
	}
}

// inDevcontainer has the agent mend a fault, as its test finds.
func (w *world) inDevcontainer(d usual) {
	w.t.Helper()
	for name, text := range d.files {
		w.write(w.project, ".devcontainer/"+name, text)
	}
	w.wrongAdd()
	test := map[string]any{"command": d.test, "description": "Run the test"}
	api := &messagesAPI{has: "Bash", last: "Fixed: add adds now.", steps: []step{
		{"Bash", test},
		{"Read", map[string]any{"file_path": filepath.Join(w.project, "add.js")}},
		{"Edit", map[string]any{"file_path": filepath.Join(w.project, "add.js"), "old_string": "a - b", "new_string": "a + b"}},
		{"Bash", test},
	}}
	w.net.handle("api.anthropic.com", api)
	w.step("devcontainer", "trust")
	w.args = []string{"--isolation", "docker", "--devcontainer", "-e", "ANTHROPIC_API_KEY=sk-ant-test-0123"}
	res := w.must("claude", "-p", "add.js does not add. Fix it.", "--dangerously-skip-permissions")
	if got := strings.TrimSpace(res.stdout); got != api.last {
		w.t.Errorf("claude said %q, want %q; stderr: %s", got, api.last, res.stderr)
	}
	api.check(w.t, "sk-ant-test-0123")
	if !strings.Contains(api.result(0), "WRONG") {
		w.t.Errorf("the first test says %q", api.result(0))
	}
	for _, want := range d.want {
		if !strings.Contains(api.result(3), want) {
			w.t.Errorf("the last test says %q, without %q", api.result(3), want)
		}
	}
}
