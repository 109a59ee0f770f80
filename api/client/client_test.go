package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloister/api"
	"cloister/api/client"
	"cloister/internal/passfd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") // short: a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// listen is a guardian of one connection after another.
func listen(t *testing.T, path string, serve func(*net.UnixConn)) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
}

// answer reads one request and answers with status and body.
func answer(status, body string) func(*net.UnixConn) {
	return func(c *net.UnixConn) {
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nConnection: close\r\n\r\n"+body)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	path := socket(t)
	if _, err := client.Dial(t.Context(), path); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("no socket: %v", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close() // what a killed guardian leaves
	if _, err := client.Dial(t.Context(), path); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("a dead socket: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Dial(t.Context(), path); err == nil {
		t.Error("dialled a file")
	}
}

func TestEnsure(t *testing.T) {
	t.Run("starts and waits", func(t *testing.T) {
		path := socket(t)
		calls := 0
		c, err := client.Ensure(t.Context(), path, func() error {
			calls++
			listen(t, path, answer("200 OK", `{"running":true}`))
			return nil
		})
		if err != nil || calls != 1 {
			t.Fatalf("%v after %d starts", err, calls)
		}
		defer func() { _ = c.Close() }()
		if st, err := c.Status(t.Context()); err != nil || !st.Running {
			t.Errorf("status %+v, %v", st, err)
		}
	})
	t.Run("does not start a second", func(t *testing.T) {
		path := socket(t)
		listen(t, path, answer("200 OK", `{}`))
		c, err := client.Ensure(t.Context(), path, func() error { t.Error("started"); return nil })
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	})
	t.Run("tells why it cannot", func(t *testing.T) {
		why := errors.New("the audit cannot be written")
		if _, err := client.Ensure(t.Context(), socket(t), func() error { return why }); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	})
	t.Run("another was first", func(t *testing.T) {
		path := socket(t)
		c, err := client.Ensure(t.Context(), path, func() error {
			listen(t, path, answer("200 OK", `{}`))
			return errors.New("already running")
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	})
	t.Run("gives up", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := client.Ensure(ctx, socket(t), func() error { return nil }); !errors.Is(err, client.ErrNotRunning) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestRefusalsAreErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		serve func(*net.UnixConn)
		want  string
		code  api.Code
	}{
		"with words":  {answer("409 Conflict", `{"code":"name_taken","error":"taken","hints":["h"]}`), "taken", api.CodeNameTaken},
		"without":     {answer("500 Oops", `not json`), "500", api.CodeInternal},
		"not a grant": {answer("200 OK", `{}`), "", ""},
		"silence":     {func(*net.UnixConn) {}, "", ""},
		"too much":    {answer("500 Oops", strings.Repeat("x", api.MaxBody+10)), "500", api.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			path := socket(t)
			listen(t, path, tc.serve)
			c, err := client.Dial(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_, err = c.OpenSession(t.Context(), api.SessionRequest{})
			var refused *api.Error
			switch {
			case err == nil:
				t.Error("opened")
			case tc.code != "" && (!errors.As(err, &refused) || refused.Code != tc.code || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v; want code %s", err, tc.code)
			}
		})
	}
}

// TestLastWord: a summary counts, although the guardian closed at once and
// numbers that want an answer came before it.
func TestLastWord(t *testing.T) {
	path := socket(t)
	listen(t, path, func(c *net.UnixConn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+api.UpgradeProtocol+"\r\n\r\n")
		conn := passfd.New(c, nil, api.MaxFrame)
		say := func(f api.Frame) {
			line, _ := json.Marshal(f)
			_ = conn.Write(line, nil, time.Now().Add(time.Second))
		}
		say(api.Frame{Type: api.FrameGrant, Grant: &api.SessionGrant{Name: "box"}})
		_, _ = conn.Read() // the end
		say(api.Frame{Type: api.FrameCounts, Summary: &api.SessionSummary{Allowed: 1}})
		say(api.Frame{Type: "from a newer guardian"})
		say(api.Frame{Type: api.FrameSummary, Summary: &api.SessionSummary{Allowed: 2}})
	})
	c, err := client.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for range 50 {
		l, err := c.OpenSession(t.Context(), api.SessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := l.End(t.Context(), api.SessionEnd{})
		if err != nil || sum.Allowed != 2 {
			t.Fatalf("%+v, %v", sum, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
