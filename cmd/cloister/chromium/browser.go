//go:build linux

package chromium

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// patience is how long something may take on a machine under load, and atStart how long
// the first answer of a browser that has just been started.
const (
	patience = 2 * time.Minute
	atStart  = 3 * time.Minute
)

// Browser is one process that serves all tests of a package; each has a profile of
// its own in it.
type Browser struct {
	cmd  *exec.Cmd
	out  *os.File
	dir  string
	gone chan struct{}

	mu    sync.Mutex
	next  int
	calls map[int]chan message
	tabs  map[string]*Tab // by session
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start runs the program at path, without a window.
func Start(path string) (*Browser, error) {
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in, theirEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(dir, "profile"), "--no-first-run",
		"--disable-gpu",
		"--disable-dev-shm-usage", "--disable-breakpad", "--disable-background-networking", "--disable-component-update",
		"--disable-sync",
		"--disable-extensions", "--disable-default-apps", "--mute-audio", "--hide-scrollbars",
		"--disable-background-timer-throttling",
		"--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--autoplay-policy=no-user-gesture-required",
		"--host-resolver-rules=MAP *.test 127.0.0.1", "--force-color-profile=srgb", "about:blank",
	}
	if os.Getuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...)
	}
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_CACHE_HOME=" + dir,
		"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.ExtraFiles = []*os.File{theirs, theirEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirs.Close()
	theirEnd.Close()
	c := &Browser{cmd: cmd, out: ours, dir: dir, gone: make(chan struct{}), calls: map[int]chan message{},
		tabs: map[string]*Tab{}}
	go c.listen(in)
	if _, err := c.callWithin(atStart, "", "Browser.getVersion", nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends it, and leaves nothing behind.
func (c *Browser) Close() {
	_, _ = c.call("", "Browser.close", nil) // it ends in any case
	done := make(chan struct{})
	go func() { _ = c.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-done
	c.out.Close()
	// Its helpers may write a last file.
	for range 50 {
		if os.RemoveAll(c.dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // nothing tells when they have ended
	}
}

func (c *Browser) listen(in *os.File) {
	defer close(c.gone)
	defer in.Close()
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		answer, tb := c.calls[m.ID], c.tabs[m.Session]
		delete(c.calls, m.ID)
		c.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m
		case tb != nil:
			tb.hear(m)
		}
	}
}

// call asks the browser, or one tab of it.
func (c *Browser) call(session, method string, params any) (json.RawMessage, error) {
	return c.callWithin(patience, session, method, params)
}

func (c *Browser) callWithin(within time.Duration, session, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if params == nil {
		raw = json.RawMessage("{}")
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	m := message{ID: c.next, Session: session, Method: method, Params: raw}
	c.calls[m.ID] = answer
	text, err := json.Marshal(m)
	if err == nil {
		_, err = c.out.Write(append(text, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, errors.New(method + ": " + m.Error.Message)
		}
		return m.Result, nil
	case <-c.gone:
		return nil, errors.New("chromium has ended")
	case <-time.After(within):
		return nil, fmt.Errorf("%s: no answer in %v", method, within)
	}
}
