package corpus

import (
	"cloister/api"
	"cloister/escape"
	"cloister/escape/browser"
	"fmt"
	"net/http"
	"strings"
)

func ui01() escape.Case {
	return escape.Case{
		ID: "UI-01", Class: "auth everywhere", Attack: "every route of the guardian and what other servers have besides, without a key: by a program of the host, and from inside by every way",
		Source: "CVE-2026-22812", Layers: []string{"window", "net", "addresses"},
		Host: windowed(func(v *window) []escape.Finding {
			paths := []string{"/v1/", "/v1/nothing", "/metrics", "/health", "/debug/pprof/", "/debug/vars", "/api", "/.well-known/x", "/v1/events?x=1", "//v1/status", "/v1/../v1/status", "/%76%31/status", "/login/../v1/status",
				api.PathStatus, api.PathStop, api.PathReload, api.PathSessions, api.PathSessions + "/x", api.PathPolicy, api.PathPolicyDigest, api.PathPolicyCheck, api.PathPolicyExplain, api.PathApprovals, api.PathApprovals + "/x", api.PathDecisions,
				api.PathEvents, api.PathSecrets, api.PathSecrets + "/TOKEN", api.PathWindow, api.PathAudit, api.PathAudit + "/verify", api.PathPolicyFiles, api.PathPolicyDraft, api.PathPolicyWords, api.PathCommands, api.PathFiles, api.PathDoctor, api.PathProjects, api.PathMCP}
			var open []string
			for _, path := range paths {
				for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"} {
					for _, fields := range [][][2]string{{{"Cookie", ""}, {"Cloister-Window", ""}}, {{"Cloister-Window", ""}}, {{"Cookie", ""}}, {{"Cookie", ""}, {"Cloister-Window", ""}, {"Connection", "Upgrade"}, {"Upgrade", "websocket"}, {"Sec-WebSocket-Protocol", "cloister.terminal, x"}}} {
						res := browser.Ask(v.at, v.request(method, path, fields...))
						if res.Status < 300 || res.Status == http.StatusSwitchingProtocols {
							open = append(open, fmt.Sprintf("%s %s: %d %.60s", method, path, res.Status, res.Body))
						}
					}
				}
			}
			out := []escape.Finding{
				found(fmt.Sprintf("%d paths without a key", len(paths)), len(open) == 0, "%q", open),
				v.reloads(),
			}
			for _, flags := range [][]string{nil, {"--allow", v.at}, {"--mode", "shadow"}} {
				argv := append(append([]string{"run", "-C", v.r.project, "--expose", v.r.w.Self + ":ro"}, flags...), "--", "sh", "-c", "echo begun; exec \"$@\"", "sh", v.r.w.Self)
				for _, words := range [][]string{{"say", "tcp:" + v.at, v.request("GET", "/v1/status")}, {"fetch", v.at}, {"fetch", strings.Replace(v.at, "127.0.0.1", "localhost", 1)}} {
					res := v.r.cloister(append(argv, words...)...)
					name := fmt.Sprintf("from inside, %s %v", words[0], flags)
					if !strings.HasPrefix(res.Stdout, "begun\n") { // what did not begin proves nothing
						name = "control: it begins: " + name
						out = append(out, found(name, false, "%d %.300s", res.Status, res.Stderr))
						continue
					}
					out = append(out, found(name, !strings.Contains(res.Stdout, "200"), "%.300s", res.Stdout))
				}
			}
			return out
		}),
	}
}
