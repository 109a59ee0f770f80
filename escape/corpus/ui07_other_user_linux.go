package corpus

import (
	"cloister/escape"
	"os"
	"path/filepath"
	"strings"
)

func ui07() escape.Case {
	return escape.Case{
		ID: "UI-07", Class: "other local user", Attack: "another user of this machine connects to the window and the socket, reads the file of browsers, takes their places",
		Source: "UI-07", Layers: []string{"window", "peer credentials"},
		Host: windowed(func(v *window) []escape.Finding {
			run := v.r.base + "/run"
			out := []escape.Finding{
				v.reloads(),
				v.refused("by TCP without a key", v.request("GET", "/v1/status", [2]string{"Cookie", ""}, [2]string{"Cloister-Window", ""}), 401),
			}
			for path, want := range map[string]os.FileMode{run + "/cloister": 0o700, run + "/cloister/guardian.sock": 0o600, run + "/cloister/window.json": 0o600} {
				info, err := os.Stat(path)
				out = append(out, found(filepath.Base(path)+" is this user's alone", err == nil && info.Mode().Perm() == want, "%v %v", info, err))
			}
			if os.Geteuid() != 0 {
				return out // only root can be another user too
			}
			// With the ways open: peer credentials hold by themselves.
			for _, path := range []string{v.r.base, run, run + "/cloister"} {
				if err := os.Chmod(path, 0o755); err != nil {
					return escape.NoHost("open the way", err)
				}
			}
			if err := os.Chmod(run+"/cloister/guardian.sock", 0o777); err != nil {
				return escape.NoHost("open the way", err)
			}
			other := func(words ...string) escape.Result {
				res, err := v.r.w.Exec("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups"}, words...)...)
				if err != nil {
					res.Stderr += err.Error()
				}
				return res
			}
			ask := get("guardian", "/v1/status")
			peer := other(v.r.w.Self, "say", "unix:"+run+"/cloister/guardian.sock", ask)
			mine, err := v.r.w.Exec(v.r.w.Self, "say", "unix:"+run+"/cloister/guardian.sock", ask)
			file := other("cat", run+"/cloister/window.json")
			place := other("sh", "-c", "mv "+run+"/cloister/guardian.sock "+run+"/cloister/other; ln -s /tmp "+run+"/cloister/new")
			return append(out,
				found("its socket, with every bit of permission", peer.Status == 0 && !strings.Contains(peer.Stdout, " 200 "), "%d %s %s", peer.Status, peer.Stdout, peer.Stderr),
				found("control: its own user asks", err == nil && strings.Contains(mine.Stdout, " 200 "), "%s %v", mine.Stdout, err),
				found("the file of browsers", file.Status != 0 && file.Stdout == "", "%s", file.Stdout),
				found("the places in its folder", place.Status != 0 && !exists(run+"/cloister/new"), "%s", place.Stderr))
		}),
	}
}
