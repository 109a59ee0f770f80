package corpus

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"cloister/escape"
)

func nw10a() escape.Case {
	return escape.Case{
		ID: "NW-10a", Class: "sockets in what is shown", Attack: "connect to sockets of the host in folders that are shown: read-only and writable ones, as a reference, deep in the project and where nobody looks for settings",
		Source: "greywall #55 (a read-only bind does not stop connect); THREATS 2.3", Layers: []string{"view"},
		Except: map[escape.Column]string{escape.Docker: "its sockets lie in mounts of the engine's: looked at by TestEngine"},
		Host: func(w *escape.World) []escape.Finding {
			shown, written := w.Base+"/shown", w.Base+"/written"
			defer clean(shown, written, w.Project+"/node_modules", w.Project+"/a")
			var reached atomic.Int64
			paths := []string{shown + "/deep/s.sock", written + "/deep/s.sock", w.Project + "/node_modules/x/s.sock", w.Project + "/a/b/c/d/e/f/g/h/s.sock", w.Project + "/.git/s.sock"}
			for _, path := range paths {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return escape.NoHost("make a folder", err)
				}
				ln, err := net.Listen("unix", path)
				if err != nil {
					return escape.NoHost("listen", err)
				}
				defer ln.Close()
				if err := os.Chmod(path, 0o777); err != nil {
					return escape.NoHost("listen", err)
				}
				go func() {
					for {
						c, err := ln.Accept()
						if err != nil {
							return
						}
						reached.Add(1)
						_ = c.Close() // it was reached, which is enough
					}
				}()
			}
			flags := []string{"--expose", w.Self, "--expose", shown, "--expose", written + ":rw", "--ref", shown}
			var out []escape.Finding
			for _, path := range append(paths, "/refs/shown/deep/s.sock") {
				res := w.Outcome(flags, w.Self, "say", "unix:"+path, "hello")
				out = append(out, found("not reached: "+shorten(w, path), res.Status == 0 && reached.Load() == 0 && strings.Contains(res.Stdout, "error: dial"), "%d: %s%s", res.Status, res.Stdout, res.Stderr))
			}
			away := w.Outcome(flags, "sh", "-c", "mv "+written+"/deep "+written+"/other && "+w.Self+" say unix:"+written+"/other/s.sock hello; mv "+w.Project+"/node_modules/x "+w.Project+"/node_modules/y && "+w.Self+" say unix:"+w.Project+"/node_modules/y/s.sock hello")
			out = append(out, found("not reached by a folder that is moved", reached.Load() == 0, "%s%s", away.Stdout, away.Stderr))
			for _, dir := range []string{"/proc", "/run", "/dev", "/sys"} {
				res := w.Outcome([]string{"--expose", dir}, "true")
				out = append(out, found("shows not "+dir, res.Status == 125 || res.Status == 2, "%d: %s", res.Status, res.Stderr))
			}
			for _, path := range paths {
				res, err := w.Exec(w.Self, "say", "unix:"+path, "hello")
				out = append(out, found("control: outside "+shorten(w, path)+" answers", err == nil && reached.Swap(0) == 1, "%v %s", err, res.Stdout))
			}
			return out
		},
	}
}
