//go:build linux

package guardian_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/guardian"
	"cloister/guardian/folders"
)

// say writes raw bytes to the guardian's socket and reads until it hangs up.
func say(t testing.TB, root string, text []byte) []byte {
	t.Helper()
	c, err := net.Dial("unix", folders.Socket(dirs(root)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(text) // it may have hung up already
	_ = c.(*net.UnixConn).CloseWrite()
	answer, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("no end of the answer to %q", text)
	}
	return answer
}

// FuzzAPI: whatever is said on the socket, by whom it lets in, the guardian
// goes on answering, and who spoke no good words has no session.
func FuzzAPI(f *testing.F) {
	head := "Host: guardian\r\nConnection: close\r\n"
	for _, r := range guardian.Routes() {
		path := strings.ReplaceAll(r.Path, "{name}", "no-such")
		if r.Read != guardian.None {
			f.Add([]byte("GET " + path + "?all=1 HTTP/1.1\r\n" + head + "\r\n"))
		}
		if r.Write != guardian.None && r.Path != api.PathStop {
			f.Add([]byte("POST " + path + " HTTP/1.1\r\n" + head + "Content-Length: 2\r\n\r\n{}"))
		}
	}
	explain := `{"connect":"good.example:443","session":""}`
	f.Add(fmt.Appendf(nil, "POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", api.PathPolicyExplain, head, len(explain), explain))
	f.Add([]byte("POST /v1/policy/explain HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
	f.Add([]byte("POST " + api.PathSessions + " HTTP/1.1\r\nHost: guardian\r\nConnection: Upgrade\r\nUpgrade: " + api.UpgradeProtocol + "\r\nContent-Length: 19\r\n\r\n{\"name\":\"\\u001b[2J\"}"))
	f.Add([]byte("GET /v1/sessions/..%2f..%2fx HTTP/1.1\r\n" + head + "\r\n"))
	root := home(f, twoNames)
	d := serve(f, root, nil)
	f.Fuzz(func(t *testing.T, text []byte) {
		say(t, root, text)
		select {
		case err := <-d.done:
			// Only who asks for it in good words ends a guardian.
			d.done <- nil
			if err != nil || !bytes.Contains(text, []byte("stop")) {
				t.Fatalf("%q ended the guardian: %v", text, err)
			}
			d = serve(f, root, nil)
		default:
		}
		status := say(t, root, []byte("GET "+api.PathStatus+" HTTP/1.1\r\n"+head+"\r\n"))
		if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) && !bytes.Contains(text, []byte("stop")) {
			t.Fatalf("after %q the status is %q", text, status)
		}
	})
}

// FuzzLink: whatever a shim says after its session was granted, the guardian
// lives, and the session ends with the link.
func FuzzLink(f *testing.F) {
	f.Add([]byte(`{"type":"arm","arm":{"listeners":[]}}` + "\n" + `{"type":"started","started":{"handle":"7","pid":7}}` + "\n" + `{"type":"end","end":{"exit_status":3,"autorun_changed":["a\u001b[2J"]}}` + "\n"))
	f.Add([]byte(`{"type":"arm","arm":{"listeners":["tcp4","dns","moon"]}}` + "\n"))
	f.Add([]byte(`{"type":"describe","exec":{"a":[1,2,{"b":null}]}}` + "\n" + `{"type":"ack"}` + "\n" + `{"type":"started"}` + "\n"))
	f.Add([]byte(`{"type":"end","end":{"failure":"x","exit_status":-1}}` + "\n" + `{"type":"end"}` + "\n"))
	f.Add([]byte("\n\n{\n"))
	root := home(f, twoNames)
	serve(f, root, nil)
	open := "POST " + api.PathSessions + " HTTP/1.1\r\nHost: guardian\r\nConnection: Upgrade\r\nUpgrade: " + api.UpgradeProtocol + "\r\nContent-Length: %d\r\n\r\n%s"
	body := `{"name":"fuzz","project":"/p","isolation":"native","network":true,"command":["x"]}`
	f.Fuzz(func(t *testing.T, text []byte) {
		shim, err := net.Dial("unix", folders.Socket(dirs(root)))
		if err != nil {
			t.Fatal(err)
		}
		defer shim.Close()
		if err := shim.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(shim, open, len(body), body)
		answer := make([]byte, 4096)
		n, err := shim.Read(answer)
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 101")) {
			t.Fatalf("the session was not granted: %q, %v", answer[:n], err)
		}
		_, _ = shim.Write(text) // it may have hung up already
		_ = shim.(*net.UnixConn).CloseWrite()
		if _, err := io.Copy(io.Discard, shim); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the link stays open after %q", text)
		}
		c, err := client.Dial(t.Context(), folders.Socket(dirs(root)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		waitFor(t, func() bool {
			list, err := c.Sessions(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 0
		})
	})
}
