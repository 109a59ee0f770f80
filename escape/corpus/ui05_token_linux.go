package corpus

import (
	"cloister/escape"
	"cloister/escape/browser"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

func ui05() escape.Case {
	return escape.Case{
		ID: "UI-05", Class: "token leakage", Attack: "use a link twice and late, look for its secret, the cookie and the word in the record, logs, files, command lines and in what a browser tells others",
		Source: "UI-05", Layers: []string{"window"},
		Host: windowed(func(v *window) []escape.Finding {
			secret, err := v.link()
			if err != nil {
				return escape.NoHost("make a link", err)
			}
			first, again := v.enter(secret), v.enter(secret)
			out := []escape.Finding{
				found("control: a link lets in once", first == nil, "%v", first),
				found("and not twice", again != nil, "it did"),
				v.refused("its secret in the query", v.request("GET", "/login?link="+secret+"&to=v1/status", [2]string{"Cookie", ""}, [2]string{"Cloister-Window", ""}, [2]string{"Origin", ""}), 200, 401, 403, 404),
			}
			fresh, err := v.link()
			if err != nil {
				return escape.NoHost("make a link", err)
			}
			if err := v.enter(fresh); err != nil {
				return escape.NoHost("enter", err)
			}
			_, cookie, _ := strings.Cut(v.cookie, "=")
			for name, text := range map[string]string{"a link's secret": secret, "the cookie": cookie, "the word": v.word} {
				files, err := holding([]string{v.r.base}, text)
				if err != nil {
					return escape.NoHost("search cloister's folders", err)
				}
				lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
				if err != nil {
					return escape.NoHost("list the processes", err)
				}
				for _, name := range lines {
					if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), text) {
						files = append(files, name)
					}
				}
				out = append(out, found(name+" stands nowhere", len(text) > 20 && len(files) == 0, "%q", files))
			}
			page := browser.Ask(v.at, v.request("GET", "/login", [2]string{"Cookie", ""}, [2]string{"Cloister-Window", ""}, [2]string{"Origin", ""}))
			body, err := json.Marshal(map[string]any{"link": "x", "public": v.public})
			if err != nil {
				return escape.NoHost("write a login", err)
			}
			wrong := browser.Ask(v.at, "POST /login/link HTTP/1.1\r\nHost: "+v.at+"\r\nOrigin: http://"+v.at+"\r\nContent-Type: application/json\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+string(body))
			set, err := v.setCookie()
			return append(out,
				found("no page tells where it was", page.Status == 200 && page.Head.Get("Referrer-Policy") == "no-referrer", "%d %q", page.Status, page.Head),
				found("a wrong link", wrong.Status == 401 && wrong.Head.Get("Set-Cookie") == "", "%d %q", wrong.Status, wrong.Head),
				found("the cookie is for no script and no other site", err == nil && strings.Contains(set, "HttpOnly") && strings.Contains(set, "SameSite=Strict"), "%q %v", set, err))
		}),
	}
}

// setCookie is how a browser gets its cookie.
func (v *window) setCookie() (string, error) {
	secret, err := v.link()
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{"link": secret, "public": v.public})
	if err != nil {
		return "", err
	}
	res := browser.Ask(v.at, "POST /login/link HTTP/1.1\r\nHost: "+v.at+"\r\nOrigin: http://"+v.at+"\r\nContent-Type: application/json\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+string(body))
	return res.Head.Get("Set-Cookie"), nil
}
