//go:build day

package realtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1" // RFC 6455 names it, and no secret hangs on it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
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
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
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
	need(t, "python3-websockets", "/usr/lib/python3/dist-packages/websockets/__init__.py")
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

// cargo fetches from a registry of its own, by HTTP/2.
func TestOpenedCargo(t *testing.T) {
	w := ownHome(t)
	cargo := need(t, "cargo", filepath.Join(w.env["HOME"], ".cargo/bin/cargo"))
	w.env["PATH"] = filepath.Dir(cargo) + ":" + w.env["PATH"]
	var ball bytes.Buffer
	z := gzip.NewWriter(&ball)
	tw := tar.NewWriter(z)
	for name, text := range map[string]string{
		"shouter-1.0.0/Cargo.toml": "[package]\nname = \"shouter\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
		"shouter-1.0.0/src/lib.rs": "pub fn shout() {}\n",
	} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(ball.Bytes())
	const host = "crates.example.com"
	s := &static{}
	s.add("/config.json", "application/json", []byte(`{"dl":"https://`+host+`/dl"}`))
	s.add("/sh/ou/shouter", "text/plain", fmt.Appendf(nil, `{"name":"shouter","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}`+"\n", hex.EncodeToString(sum[:])))
	s.add("/dl/shouter/1.0.0/download", "application/gzip", ball.Bytes())
	w.net.handle(host, s)
	w.write(w.project, "Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nshouter = { version = \"1\", registry = \"here\" }\n")
	w.write(w.project, "src/main.rs", "fn main() { shouter::shout() }\n")
	w.args = []string{"-e", "CARGO_REGISTRIES_HERE_INDEX=sparse+https://" + host + "/", "-e", "CARGO_HOME=/tmp/cargo"}
	w.script("cargo fetch && find /tmp/cargo/registry -name 'shouter-1.0.0.crate' | grep .")
	if n := len(w.requests(200)); n < 3 {
		t.Errorf("%d requests of the record:\n%s", n, w.journal())
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
		fmt.Fprint(rw, `<html><body><p id=p>empty</p><script>fetch("/late").then(r => r.text()).then(t => { p.textContent = "page and " + t })</script></body></html>`)
	}))
	res := w.run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom", "https://"+readHost+"/page")
	if !strings.Contains(res.stdout, "page and loaded") {
		t.Errorf("got %q; status %d; stderr: %s", res.stdout, res.status, res.stderr)
	}
}
