package corpus

import (
	"cloister/escape"
	"cloister/escape/browser"
	"strings"
)

func ui03() escape.Case {
	return escape.Case{
		ID: "UI-03", Class: "CSRF", Attack: "a page of another origin, and one of another port of this host, asks with the person's cookie: forms, text, JSON, no Origin, a null one, images, frames, WebSockets, preflights",
		Source: "tailscale client/web csrfProtect tests", Layers: []string{"window"},
		Host: windowed(func(v *window) []escape.Finding {
			no := func(fields ...[2]string) [][2]string { return append(fields, [2]string{"Cloister-Window", ""}) }
			out := []escape.Finding{v.reloads()}
			for name, fields := range map[string][][2]string{
				"cross-site":                 {{"Origin", "https://evil.test"}, {"Sec-Fetch-Site", "cross-site"}},
				"another port of this host":  {{"Origin", "http://127.0.0.1:1"}, {"Sec-Fetch-Site", "same-site"}},
				"same-site, our origin":      {{"Sec-Fetch-Site", "same-site"}},
				"typed by a person":          {{"Sec-Fetch-Site", "none"}},
				"a null origin":              {{"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}},
				"no origin":                  {{"Origin", ""}},
				"no origin, no site":         {{"Origin", ""}, {"Sec-Fetch-Site", ""}},
				"our origin in TLS":          {{"Origin", "https://" + v.at}},
				"our origin with more":       {{"Origin", "http://" + v.at + ".evil.test"}},
				"our origin with a slash":    {{"Origin", "http://" + v.at + "/"}},
				"our origin under localhost": {{"Origin", strings.Replace("http://"+v.at, "127.0.0.1", "localhost", 1)}},
				"a form":                     {{"Content-Type", "application/x-www-form-urlencoded"}},
				"JSON as text":               {{"Content-Type", "text/plain"}},
				"JSON with a parameter":      {{"Content-Type", "application/json; charset=utf-8"}},
				"multipart":                  {{"Content-Type", "multipart/form-data; boundary=x"}},
				"no type":                    {{"Content-Type", ""}},
			} {
				out = append(out, v.refused("POST "+name, v.request("POST", "/v1/reload", fields...), 400, 401, 403, 415))
			}
			for name, fields := range map[string][][2]string{
				"the cookie alone":      no(),
				"an image elsewhere":    no([2]string{"Origin", ""}, [2]string{"Sec-Fetch-Site", "cross-site"}, [2]string{"Sec-Fetch-Mode", "no-cors"}, [2]string{"Sec-Fetch-Dest", "image"}),
				"followed to the API":   no([2]string{"Origin", ""}, [2]string{"Sec-Fetch-Site", "cross-site"}, [2]string{"Sec-Fetch-Mode", "navigate"}, [2]string{"Sec-Fetch-Dest", "document"}),
				"with the word":         {{"Origin", "https://evil.test"}, {"Sec-Fetch-Site", "cross-site"}},
				"another word":          {{"Cloister-Window", strings.Repeat("x", len(v.word))}},
				"a WebSocket elsewhere": {{"Origin", "https://evil.test"}, {"Connection", "Upgrade"}, {"Upgrade", "websocket"}, {"Sec-WebSocket-Protocol", "cloister.terminal, " + v.word}},
			} {
				out = append(out, v.refused("GET "+name, v.request("GET", "/v1/status", fields...), 400, 401, 403))
			}
			preflight := browser.Ask(v.at, v.request("OPTIONS", "/v1/reload", [2]string{"Origin", "https://evil.test"}, [2]string{"Access-Control-Request-Method", "POST"}, [2]string{"Access-Control-Request-Private-Network", "true"}))
			cors := ""
			for name := range preflight.Head {
				if strings.HasPrefix(name, "Access-Control") {
					cors += name
				}
			}
			return append(out, found("a preflight", preflight.Status >= 400 && cors == "", "%d %s", preflight.Status, cors))
		}),
	}
}
