package realtest

import (
	"crypto/sha1" // RFC 6455 names it, and no secret hangs on it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/needs"
)

// echoSocket answers each short text message of a WebSocket with the same.
func echoSocket(rw http.ResponseWriter, r *http.Request) {
	conn, buf, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		http.Error(rw, "no upgrade", http.StatusBadRequest)
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"+
		"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	for {
		head := make([]byte, 6) // a short masked frame
		if _, err := io.ReadFull(buf, head); err != nil || head[1]&0x7f > 125 {
			return
		}
		text := make([]byte, head[1]&0x7f)
		if _, err := io.ReadFull(buf, text); err != nil {
			return
		}
		for i := range text {
			text[i] ^= head[2+i%4]
		}
		if _, err := conn.Write(append([]byte{head[0], byte(len(text))}, text...)); err != nil {
			return
		}
	}
}

// A WebSocket client, unmodified: Python's from Debian.
func TestOpenedWebSocket(t *testing.T) {
	w := newWorld(t)
	if _, err := os.Stat("/usr/lib/python3/dist-packages/websockets/__init__.py"); err != nil {
		needs.Missing(t, "websockets", err)
	}
	w.net.handle(readHost, http.HandlerFunc(echoSocket))
	w.write(w.project, "ws.py", `
import asyncio, websockets
async def main():
    async with websockets.connect("wss://api.example.com/socket") as ws:
        for text in ("one", "two", "three"):
            await ws.send(text)
            print(await ws.recv(), end=" ")
asyncio.run(main())
`)
	if res := w.must("/usr/bin/python3", "ws.py"); res.stdout != "one two three " {
		t.Errorf("got %q; stderr: %s", res.stdout, res.stderr)
	}
	if len(w.requests(http.StatusSwitchingProtocols)) != 1 {
		t.Errorf("the record:\n%s", w.journal())
	}
}

const cratesHost = "crates.example.com"

// crate is a registry's answer for a package of Rust, and its line of the index.
func crate(t *testing.T, s *static, name string) string {
	t.Helper()
	ball := tarball(t, name+"-1.0.0", map[string]string{
		"Cargo.toml": "[package]\nname = \"" + name + "\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "pub fn shout() {}\n",
	})
	s.add("/dl/"+name+"/1.0.0/download", "application/gzip", ball)
	sum := sha256.Sum256(ball)
	return fmt.Sprintf(`{"name":%q,"vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}`+"\n",
		name, hex.EncodeToString(sum[:]))
}

// cargo fetches from a registry of its own: the person's, whose index is files, and
// Debian's, which clones an index in git.
func TestOpenedCargo(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skipf("need home: %v", err)
	}
	for _, c := range []struct{ name, program, index string }{
		{"an index of files", filepath.Join(home, ".cargo/bin/cargo"), "sparse+https://" + cratesHost + "/"},
		{"of Debian with an index in git", "/usr/bin/cargo", "https://" + cratesHost + "/index.git"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ownHome(t)
			w.env["PATH"] = filepath.Dir(need(t, "cargo", c.program)) + ":" + w.env["PATH"]
			s := &static{}
			const config, at = `{"dl":"https://` + cratesHost + `/dl"}`, "sh/ou/shouter"
			line := crate(t, s, "shouter")
			s.add("/config.json", "application/json", []byte(config))
			s.add("/"+at, "text/plain", []byte(line))
			w.write(w.dir, "index/config.json", config)
			w.write(w.dir, "index/"+at, line)
			w.host("sh", "-euc", "cd "+w.dir+`/index; git init -q; git add .
				git -c user.name=a -c user.email=a@example.org commit -qm index; git clone -q --bare . ../index.git`)
			mux := http.NewServeMux()
			mux.Handle("/", s)
			mux.Handle("/index.git/", &cgi.Handler{
				Path: filepath.Join(strings.TrimSpace(w.host("git", "--exec-path")), "git-http-backend"), Dir: w.dir,
				Env: []string{"GIT_PROJECT_ROOT=" + w.dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.home},
			})
			w.net.handle(cratesHost, mux)
			w.write(w.project, "Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"+
				"[dependencies]\nshouter = { version = \"1\", registry = \"here\" }\n")
			w.write(w.project, "src/main.rs", "fn main() { shouter::shout() }\n")
			w.args = []string{"-e", "CARGO_REGISTRIES_HERE_INDEX=" + c.index, "-e", "CARGO_HOME=/tmp/cargo"}
			w.script("cargo fetch && find /tmp/cargo/registry -name 'shouter-1.0.0.crate' | grep .")
			if n := len(w.requests(200)); n < 3 {
				t.Errorf("%d requests of the record:\n%s", n, w.journal())
			}
		})
	}
}

// Chromium, headless, gets a page and what it loads.
func TestOpenedChromium(t *testing.T) {
	w := newWorld(t)
	need(t, "chromium", "chromium")
	w.net.handle(readHost, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/late" {
			fmt.Fprint(rw, "loaded")
			return
		}
		fmt.Fprint(rw, `<html><body><p id=p>empty</p><script>
			fetch("/late").then(r => r.text()).then(t => { p.textContent = "page and " + t })</script></body></html>`)
	}))
	res := w.run("chromium", "--headless", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom", "https://"+readHost+"/page")
	if !strings.Contains(res.stdout, "page and loaded") {
		t.Errorf("got %q; status %d; stderr: %s", res.stdout, res.status, res.stderr)
	}
	if len(w.requests(200)) < 2 {
		t.Errorf("the record:\n%s", w.journal())
	}
}
