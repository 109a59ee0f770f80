package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/mcp"
)

// TestMain is also the server that the bridge runs.
func TestMain(m *testing.M) {
	if os.Getenv("CLOISTER_MCP_SERVER") == "" {
		os.Exit(m.Run())
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &req) != nil {
			os.Exit(3)
		}
		switch req.Method {
		case "ask": // asks before it answers
			fmt.Println(`{"jsonrpc":"2.0","id":"q","method":"ping"}`)
		case "flood": // says much before it reads on
			for range 64 {
				fmt.Printf(`{"jsonrpc":"2.0","method":"n","params":{"x":%q}}`+"\n", strings.Repeat("x", 16<<10))
			}
		case "garbage":
			fmt.Println("hello")
			continue
		case "die":
			os.Exit(1)
		}
		fmt.Fprintf(os.Stderr, "got %s\n", req.Method)
		if req.ID != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"pid":%d}}`+"\n", req.ID, os.Getpid())
		}
	}
}

// A bridge starts its program once, brings each answer to who asked, tells what
// the program asks meanwhile, starts it again when it has died, and leaves nothing.
func TestBridge(t *testing.T) {
	var mu sync.Mutex
	started, said := 0, ""
	b := &mcp.Bridge{
		Make: func() (*exec.Cmd, error) {
			started++
			c := exec.CommandContext(t.Context(), os.Args[0])
			c.Env = append(os.Environ(), "CLOISTER_MCP_SERVER=1")
			return c, nil
		},
		Log: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said += text + "\n"
		},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.Serve(t.Context(), c) })
		}
	})
	post := func(body, accept string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ln.Addr().String(), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	const both = "application/json, text/event-stream"
	status, first := post("{\"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"x\"}", "application/json")
	if status != 200 || !strings.HasPrefix(first, `{"jsonrpc":"2.0","id":1,"result":{"pid":`) {
		t.Errorf("%d %s", status, first)
	}
	if status, text := post(`{"jsonrpc":"2.0","id":"a","method":"ask"}`, both); status != 200 || !strings.HasPrefix(text, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\"}\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\",") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := post(`[{"jsonrpc":"2.0","id":2,"method":"x"},{"jsonrpc":"2.0","id":3,"method":"x"}]`, "application/json"); status != 200 || strings.Count(text, `"result"`) != 2 || text[0] != '[' {
		t.Errorf("%d %s", status, text)
	}
	if status, text := post(`{"jsonrpc":"2.0","method":"notifications/x"}`, both); status != 202 || text != "" {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := post(`{"jsonrpc":"2.0"`, both); status != 400 {
		t.Errorf("%d for what is no frame", status)
	}
	for _, end := range []string{"die", "garbage"} {
		if status, text := post(`{"jsonrpc":"2.0","id":9,"method":"`+end+`"}`, "application/json"); status != 502 {
			t.Errorf("%s: %d %s", end, status, text)
		}
		if status, text := post(`{"jsonrpc":"2.0","id":1,"method":"x"}`, "application/json"); status != 200 || text == first {
			t.Errorf("after %s: %d %s", end, status, text)
		}
	}
	b.Close()
	if status, _ := post(`{"jsonrpc":"2.0","id":1,"method":"x"}`, "application/json"); status != 502 || started != 3 {
		t.Errorf("after its end %d, and %d starts", status, started)
	}
	_ = ln.Close()
	serving.Wait()
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(said, "got ask") || strings.Count(said, "it has ended") != 3 {
		t.Errorf("the log has %q", said)
	}
}

// A program that reads no more until somebody has read what it says gets both.
func TestBridgeFlood(t *testing.T) {
	b := &mcp.Bridge{
		Make: func() (*exec.Cmd, error) {
			c := exec.CommandContext(t.Context(), os.Args[0])
			c.Env = append(os.Environ(), "CLOISTER_MCP_SERVER=1")
			return c, nil
		},
		Log: func(string) {},
	}
	body := `[{"jsonrpc":"2.0","id":1,"method":"flood"},{"jsonrpc":"2.0","method":"n","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}]`
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
	req.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.ServeHTTP(w, req)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		b.Close() // its end frees all
		<-done
		t.Fatal("the bridge and its program wait for each other")
	}
	b.Close()
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"id":1,"result"`) || w.Header().Get("Mcp-Session-Id") == "" {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}

// Why a program does not start is the host's matter.
func TestBridgeTellsNoPath(t *testing.T) {
	said, ended := "", 0
	b := &mcp.Bridge{
		Name:  "files",
		Make:  func() (*exec.Cmd, error) { return exec.CommandContext(t.Context(), "/nonexistent/secret"), nil },
		Log:   func(text string) { said += text },
		Began: func() { ended-- }, Ended: func() { ended++ },
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(`{}`)))
	if w.Code != http.StatusBadGateway || w.Body.String() != "the server files cannot be started\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(said, "/nonexistent/secret") || ended != 0 {
		t.Errorf("the log has %q, and %d still count as running", said, -ended)
	}
}
