//go:build linux

package webtest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/internal/needs"
)

// chromium is one browser that serves all tests; each has a profile of its own
// in it. It is spoken to over pipes, in the protocol of its developer tools: a
// hundred lines, where a client library takes a minute to compile with all its
// types (docs/decisions/0017).
type chromium struct {
	cmd  *exec.Cmd
	out  *os.File
	dir  string
	gone chan struct{}

	mu    sync.Mutex
	next  int
	calls map[int]chan message
	tabs  map[string]*tab // by session
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

var one struct {
	once sync.Once
	c    *chromium
	err  error
}

func browser(t *testing.T) *chromium {
	t.Helper()
	path := needs.Program(t, "chromium", "chromium")
	one.once.Do(func() { one.c, one.err = startChromium(path) })
	if one.err != nil {
		t.Fatalf("start chromium: %v", one.err)
	}
	return one.c
}

func startChromium(path string) (*chromium, error) {
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(dir, "profile"), "--no-first-run", "--disable-gpu",
		"--disable-dev-shm-usage", "--disable-breakpad", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-extensions", "--disable-default-apps", "--mute-audio", "--hide-scrollbars", "--disable-background-timer-throttling",
		"--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--autoplay-policy=no-user-gesture-required",
		"--host-resolver-rules=MAP *.test 127.0.0.1", "--force-color-profile=srgb", "about:blank",
	}
	if os.Getuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...)
	}
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_CACHE_HOME=" + dir, "PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.ExtraFiles = []*os.File{theirs, told}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirs.Close()
	told.Close()
	c := &chromium{cmd: cmd, out: ours, dir: dir, gone: make(chan struct{}), calls: map[int]chan message{}, tabs: map[string]*tab{}}
	go c.listen(in)
	return c, nil
}

func closeBrowser() {
	c := one.c
	if c == nil {
		return
	}
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

func (c *chromium) listen(in *os.File) {
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
func (c *chromium) call(session, method string, params any) (json.RawMessage, error) {
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
	case <-time.After(patience):
		return nil, fmt.Errorf("%s: no answer", method)
	}
}

// tab is one page in the browser.
type tab struct {
	t       *testing.T
	c       *chromium
	session string
	target  string
	profile string

	mu       sync.Mutex
	problems []string
	expected []string
}

// watch is told each violation of the page's own policy.
const watch = `addEventListener('securitypolicyviolation', (e) => {
	console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample);
})`

// newTab opens a tab in a profile of its own, or in that of another tab.
func newTab(t *testing.T, beside *tab) *tab {
	t.Helper()
	c := browser(t)
	tb := &tab{t: t, c: c}
	if beside != nil {
		tb.profile = beside.profile
	} else {
		var made struct {
			ID string `json:"browserContextId"`
		}
		tb.ask("", "Target.createBrowserContext", nil, &made)
		tb.profile = made.ID
	}
	var made struct {
		ID string `json:"targetId"`
	}
	tb.ask("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": tb.profile}, &made)
	tb.target = made.ID
	var attached struct {
		ID string `json:"sessionId"`
	}
	tb.ask("", "Target.attachToTarget", map[string]any{"targetId": made.ID, "flatten": true}, &attached)
	tb.session = attached.ID
	c.mu.Lock()
	c.tabs[tb.session] = tb
	c.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		tb.do(domain+".enable", nil)
	}
	tb.do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": watch})
	tb.size(1180, 760)
	t.Cleanup(func() {
		if beside == nil {
			_, _ = c.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": tb.profile})
		}
		tb.mu.Lock()
		defer tb.mu.Unlock()
		for _, p := range tb.problems {
			t.Errorf("the page complains: %s", p)
		}
	})
	return tb
}

func (tb *tab) close() {
	tb.t.Helper()
	tb.ask("", "Target.closeTarget", map[string]any{"targetId": tb.target}, nil)
}

func (tb *tab) size(width, height int) {
	tb.t.Helper()
	tb.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

// hear gathers what a console would show in red.
func (tb *tab) hear(m message) {
	text := ""
	switch m.Method {
	case "Runtime.exceptionThrown":
		text = "exception: " + string(m.Params)
	case "Runtime.consoleAPICalled":
		var e struct {
			Type string            `json:"type"`
			Args []json.RawMessage `json:"args"`
		}
		if json.Unmarshal(m.Params, &e) == nil && (e.Type == "error" || e.Type == "warning" || e.Type == "assert") {
			text = fmt.Sprintf("console: %s", e.Args)
		}
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Source, Level, Text, URL string } `json:"entry"`
		}
		if json.Unmarshal(m.Params, &e) == nil && e.Entry.Level == "error" {
			text = e.Entry.Source + ": " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if text == "" {
		return
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, may := range tb.expected {
		if strings.Contains(text, may) {
			return
		}
	}
	tb.problems = append(tb.problems, text)
}

// expect says that the browser itself will complain of what a test does.
func (tb *tab) expect(parts ...string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expected = append(tb.expected, parts...)
}

func (tb *tab) ask(session, method string, params, into any) {
	tb.t.Helper()
	answer, err := tb.c.call(session, method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		tb.t.Fatalf("browser: %v", err)
	}
}

func (tb *tab) do(method string, params any) {
	tb.t.Helper()
	tb.ask(tb.session, method, params, nil)
}

// try evaluates an expression, whose promise is awaited.
func (tb *tab) try(js string, into any) error {
	raw, err := tb.c.call(tb.session, "Runtime.evaluate", map[string]any{"expression": js, "awaitPromise": true, "returnByValue": true, "userGesture": true})
	if err != nil {
		return err
	}
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	if answer.Exception != nil {
		return errors.New(answer.Exception.Text + " " + answer.Exception.Exception.Description)
	}
	if into == nil || answer.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(answer.Result.Value, into)
}

// eval gives the value of an expression.
func eval[T any](tb *tab, js string) T {
	tb.t.Helper()
	var v T
	if err := tb.try(js, &v); err != nil {
		tb.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// wait waits until an expression is true.
func (tb *tab) wait(js string) {
	tb.t.Helper()
	began := time.Now()
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for {
		// While a page is on its way there is nothing to ask.
		var ok bool
		err := tb.try(`!!(`+js+`)`, &ok)
		if err == nil && ok {
			return
		}
		if time.Since(began) > patience {
			var where, text string
			_ = tb.try("location.href", &where)
			_ = tb.try("document.body.innerText", &text)
			tb.mu.Lock()
			defer tb.mu.Unlock()
			tb.t.Fatalf("not within %v: %s (%v)\nat %s, with %q:\n%s", patience, js, err, where, tb.problems, text)
		}
		<-tick.C
	}
}

// ready waits until an ask stands still for longer than answers are dead after it
// moved, and may be allowed.
func (tb *tab) ready() {
	tb.t.Helper()
	tb.wait(`(() => {
		const e = document.querySelector('.ask.chosen');
		if (!e || e.querySelector('.allow').disabled) return false;
		e.since = e.since || performance.now();
		return performance.now() - e.since > 700;
	})()`)
}

func (tb *tab) navigate(url string) {
	tb.t.Helper()
	tb.do("Page.navigate", map[string]any{"url": url})
}

// open comes in by a link and waits for the page.
func (tb *tab) open(w *world) {
	tb.t.Helper()
	tb.navigate(w.link())
	tb.wait(`location.pathname === '/now' && document.querySelector('main h1') && document.documentElement.dataset.live === 'yes'`)
}

// visit goes to a page as a person types it.
func (tb *tab) visit(path string) {
	tb.t.Helper()
	tb.navigate(eval[string](tb, "window.leaving = true, location.origin") + path)
	tb.wait(`!window.leaving && document.querySelector('main h1') && document.documentElement.dataset.live === 'yes'`)
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// says waits until the page has a text.
func (tb *tab) says(text string) {
	tb.t.Helper()
	tb.wait(`document.body.innerText.includes(` + quoted(text) + `)`)
}

// click presses what a selector finds first, with the mouse, once it is there
// and can be pressed.
func (tb *tab) click(selector string) {
	tb.t.Helper()
	s := quoted(selector)
	tb.wait(`(() => { const e = document.querySelector(` + s + `); return e && !e.disabled && e.getClientRects().length; })()`)
	at := eval[struct{ X, Y float64 }](tb, `(() => { const e = document.querySelector(`+s+`); e.scrollIntoView({block: 'center'});
		const r = e.getBoundingClientRect(); return {X: r.x + r.width / 2, Y: r.y + r.height / 2}; })()`)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		tb.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1})
	}
}

// press types keys, each a character or one of the names here.
func (tb *tab) press(keys ...string) {
	tb.t.Helper()
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36, "PageDown": 34, "Backspace": 8}
	for _, key := range keys {
		down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
		if codes[key] == 0 {
			down["text"] = key
		}
		if key == "Enter" {
			down["text"] = "\r"
		}
		tb.do("Input.dispatchKeyEvent", down)
		tb.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]})
	}
}

// put types a text into a field, in place of what is there.
func (tb *tab) put(selector, text string) {
	tb.t.Helper()
	tb.wait(`document.querySelector(` + quoted(selector) + `)`)
	eval[bool](tb, `(() => { const e = document.querySelector(`+quoted(selector)+`); e.focus(); e.select(); return true; })()`)
	tb.do("Input.insertText", map[string]any{"text": text})
}

// shot keeps a picture, light and dark, where CLOISTER_WINDOW_SHOTS names a
// folder for them.
func (tb *tab) shot(name string) {
	tb.t.Helper()
	dir := os.Getenv("CLOISTER_WINDOW_SHOTS")
	if dir == "" {
		return
	}
	for _, theme := range []string{"light", "dark"} {
		tb.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}})
		eval[bool](tb, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
		var picture struct {
			Data string `json:"data"`
		}
		tb.ask(tb.session, "Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &picture)
		png, err := base64.StdEncoding.DecodeString(picture.Data)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+"-"+theme+".png"), png, 0o644)
		}
		if err != nil {
			tb.t.Fatal(err)
		}
	}
}
