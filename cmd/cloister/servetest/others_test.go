//go:build linux

package servetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// others runs the newest SDKs from npm by the server's domain, and computesdk's suite for
// providers where script/e2b-suite has put it; it gives a line about each.
func (w *suite) others(s *server) string {
	w.t.Helper()
	_, digest, _ := strings.Cut(strings.TrimSpace(s.do("serve", "template", "add", "acme", "env", programs(w.t, s.dir, "image"))), " ")
	env := append(os.Environ(), "NODE_EXTRA_CA_CERTS="+w.ca, "E2B_DOMAIN="+suiteDomain, "E2B_API_KEY="+s.keys["acme"], "IMAGE=x@"+digest)
	var out strings.Builder
	for _, p := range [][2]string{
		{"sdk.mjs", "E2B's SDK"}, {"provider.mjs", "the OpenAI Agents SDK's provider for E2B"}, {"template.mjs", "templates by E2B's SDK"},
	} {
		program, what := p[0], p[1]
		dir := sdk(w.t, program)
		cmd := exec.CommandContext(w.t.Context(), "node", program)
		cmd.Dir, cmd.Env = dir, env
		said, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(said), "all well\n") {
			w.t.Errorf("%s by the domain: %v: %s", program, err, said)
		}
		fmt.Fprintf(&out, "- %s, `%s`: %s\n", what, program, map[bool]string{true: "passed", false: "failed"}[err == nil])
	}
	dir := os.Getenv("CLOISTER_COMPUTESDK")
	if dir == "" {
		return out.String()
	}
	w.write(filepath.Join(dir, "provider.test.ts"), []byte(`import { runProviderTestSuite } from './provider-test-suite'
import { e2b } from '@computesdk/e2b'
runProviderTestSuite({ name: 'e2b', provider: e2b({}), supportsFilesystem: true, ports: [3000, 8080] })
`))
	report := filepath.Join(w.t.TempDir(), "computesdk.json")
	cmd := exec.CommandContext(w.t.Context(), "node_modules/.bin/vitest", "run", "provider.test.ts", "--reporter=json", "--outputFile="+report)
	cmd.Dir, cmd.Env = dir, env
	said, err := cmd.CombinedOutput()
	var all struct{ NumTotalTests, NumPassedTests int }
	text, rerr := os.ReadFile(report)
	if rerr == nil {
		rerr = json.Unmarshal(text, &all)
	}
	if err != nil || rerr != nil || all.NumPassedTests != all.NumTotalTests || all.NumTotalTests < 16 {
		w.t.Errorf("computesdk's suite: %d of %d: %v %v: %s", all.NumPassedTests, all.NumTotalTests, err, rerr, said)
	}
	fmt.Fprintf(&out, "- computesdk's suite for providers, with `@computesdk/e2b`: %d of %d passed\n", all.NumPassedTests, all.NumTotalTests)
	return out.String()
}
