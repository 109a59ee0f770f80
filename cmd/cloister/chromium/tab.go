//go:build linux

package chromium

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Tab is one page in the browser.
type Tab struct {
	t       *testing.T
	c       *Browser
	session string
	target  string
	profile string

	mu       sync.Mutex
	problems []string
	expected []string
	bound    map[string]func(string)
}

// In gives the tab to a part of a test.
func (tb *Tab) In(t *testing.T) { tb.t = t }

// Bind gives pages a function of this name, which calls call with its text.
func (tb *Tab) Bind(name string, call func(string)) {
	tb.t.Helper()
	tb.mu.Lock()
	if tb.bound == nil {
		tb.bound = map[string]func(string){}
	}
	tb.bound[name] = call
	tb.mu.Unlock()
	tb.Do("Runtime.addBinding", map[string]any{"name": name})
}

// OnEachPage runs a script in each page before the page's own.
func (tb *Tab) OnEachPage(js string) {
	tb.t.Helper()
	tb.Do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": js})
}

// watch is given each violation of the page's own policy.
const watch = `addEventListener('securitypolicyviolation', (e) => {
	console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample);
})`

// Tab opens a tab in a profile of its own, or in that of another tab. At the end of
// the test it fails for what the page complained of.
func (c *Browser) Tab(t *testing.T, beside *Tab) *Tab {
	t.Helper()
	tb := &Tab{t: t, c: c}
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
		tb.Do(domain+".enable", nil)
	}
	tb.OnEachPage(watch)
	tb.Size(1180, 760)
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

// Close closes the tab, as a person does.
func (tb *Tab) Close() {
	tb.t.Helper()
	tb.ask("", "Target.closeTarget", map[string]any{"targetId": tb.target}, nil)
}

// Size is the page's, in pixels.
func (tb *Tab) Size(width, height int) {
	tb.t.Helper()
	tb.Do("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

// hear gathers what a console would show in red.
func (tb *Tab) hear(m message) {
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
	case "Runtime.bindingCalled":
		var e struct{ Name, Payload string }
		if json.Unmarshal(m.Params, &e) == nil {
			tb.mu.Lock()
			call := tb.bound[e.Name]
			tb.mu.Unlock()
			if call != nil {
				call(e.Payload)
			}
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

// Expect says that the browser itself will complain of what a test does.
func (tb *Tab) Expect(parts ...string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expected = append(tb.expected, parts...)
}

// Ask calls a method of the developer tools' protocol for this tab.
func (tb *Tab) Ask(method string, params, into any) {
	tb.t.Helper()
	tb.ask(tb.session, method, params, into)
}

func (tb *Tab) ask(session, method string, params, into any) {
	tb.t.Helper()
	answer, err := tb.c.call(session, method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		tb.t.Fatalf("browser: %v", err)
	}
}

// Do is Ask without an answer.
func (tb *Tab) Do(method string, params any) {
	tb.t.Helper()
	tb.ask(tb.session, method, params, nil)
}

// Try evaluates an expression, whose promise is awaited.
func (tb *Tab) Try(js string, into any) error {
	raw, err := tb.c.call(tb.session, "Runtime.evaluate",
		map[string]any{"expression": js, "awaitPromise": true, "returnByValue": true, "userGesture": true})
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

// Eval gives the value of an expression.
func Eval[T any](tb *Tab, js string) T {
	tb.t.Helper()
	var v T
	if err := tb.Try(js, &v); err != nil {
		tb.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// Wait waits until an expression is true.
func (tb *Tab) Wait(js string) {
	tb.t.Helper()
	began := time.Now()
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for {
		// While a page is on its way there is nothing to ask.
		var ok bool
		err := tb.Try(`!!(`+js+`)`, &ok)
		if err == nil && ok {
			return
		}
		if time.Since(began) > patience {
			var where, text string
			_ = tb.Try("location.href", &where)
			_ = tb.Try("document.body.innerText", &text)
			tb.mu.Lock()
			defer tb.mu.Unlock()
			tb.t.Fatalf("not within %v: %s (%v)\nat %s, with %q:\n%s", patience, js, err, where, tb.problems, text)
		}
		<-tick.C
	}
}

// Navigate goes to an address; it does not wait for the page.
func (tb *Tab) Navigate(url string) {
	tb.t.Helper()
	tb.Do("Page.navigate", map[string]any{"url": url})
}

// Quoted is a text as JavaScript writes it.
func Quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// Says waits until the page has a text.
func (tb *Tab) Says(text string) {
	tb.t.Helper()
	tb.Wait(`document.body.innerText.includes(` + Quoted(text) + `)`)
}

// Click presses what a selector finds first, with the mouse, once it is there
// and can be pressed; and again where it moved away meanwhile, as a person would. What the page
// made anew meanwhile in the same place counts as the same.
func (tb *Tab) Click(selector string) {
	tb.t.Helper()
	s := Quoted(selector)
	for began := time.Now(); time.Since(began) < patience; {
		tb.Wait(`(() => { const e = document.querySelector(` + s +
			`); return e && !e.disabled && e.getClientRects().length; })()`)
		var at struct{ X, Y float64 }
		err := tb.Try(`(() => { const e = document.querySelector(`+s+`); e.scrollIntoView({block: 'center'});
			globalThis.clicked = false;
			addEventListener('click', (c) => { globalThis.clicked = e.contains(c.target) || c.target.contains(e)
				|| !e.isConnected && !!c.target.closest(`+s+`); }, {capture: true, once: true});
			const r = e.getBoundingClientRect(); return {X: r.x + r.width / 2, Y: r.y + r.height / 2}; })()`, &at)
		if err != nil {
			continue // it went between the two
		}
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			tb.Do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left",
				"clickCount": 1})
		}
		var missed bool
		if err := tb.Try(`globalThis.clicked === false`, &missed); err != nil || !missed {
			return // it was clicked, or led to another page
		}
	}
	tb.t.Fatalf("%s is never where it was clicked", selector)
}

// Press types keys, each a character or one of the names here.
func (tb *Tab) Press(keys ...string) {
	tb.t.Helper()
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36,
		"PageDown": 34, "Backspace": 8}
	for _, key := range keys {
		down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
		if codes[key] == 0 {
			down["text"] = key
		}
		if key == "Enter" {
			down["text"] = "\r"
		}
		tb.Do("Input.dispatchKeyEvent", down)
		tb.Do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]})
	}
}

// Put types a text into a field, in place of what is there.
func (tb *Tab) Put(selector, text string) {
	tb.t.Helper()
	tb.Wait(`document.querySelector(` + Quoted(selector) + `)`)
	Eval[bool](tb, `(() => { const e = document.querySelector(`+Quoted(selector)+
		`); e.focus(); e.select(); return true; })()`)
	tb.Do("Input.insertText", map[string]any{"text": text})
}

// Shot keeps a picture in each of these themes, light and dark, as
// dir/name-light.png and dir/name-dark.png.
func (tb *Tab) Shot(dir, name string, themes ...string) {
	tb.t.Helper()
	for _, theme := range themes {
		tb.Do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
			"value": theme}}})
		Eval[bool](tb, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
		var picture struct {
			Data string `json:"data"`
		}
		tb.Ask("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &picture)
		png, err := base64.StdEncoding.DecodeString(picture.Data)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+"-"+theme+".png"), png, 0o644)
		}
		if err != nil {
			tb.t.Fatal(err)
		}
	}
}
