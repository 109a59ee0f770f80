package corpus

import (
	"cloister/escape"
	"cloister/escape/browser"
	"regexp"
	"strings"
)

func ui06() escape.Case {
	return escape.Case{
		ID: "UI-06", Class: "framing", Attack: "show the window in a frame, put markup and scripts into its pages, load from elsewhere: what each page lets a browser do",
		Source: "tailscale safeweb DefaultCSP", Layers: []string{"window"},
		Host: windowed(func(v *window) []escape.Finding {
			var out []escape.Finding
			for _, path := range []string{"/", "/login", "/asks", "/traffic", "/policy", "/nothing", "/v1/status"} {
				res := browser.Ask(v.at, v.request("GET", path, [2]string{"Sec-Fetch-Mode", "navigate"}, [2]string{"Sec-Fetch-Dest", "document"}))
				csp := res.Head.Get("Content-Security-Policy")
				var lacks []string
				for _, word := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action"} {
					if !strings.Contains(csp, word) {
						lacks = append(lacks, word)
					}
				}
				for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer"} {
					if res.Head.Get(name) != want {
						lacks = append(lacks, name+": "+res.Head.Get(name))
					}
				}
				inline := regexp.MustCompile(`(?i)<script(\s[^>]*)?>[^<]|\son[a-z]+=|javascript:|src="(https?:)?//`).FindString(res.Body)
				out = append(out, found(path, len(lacks) == 0 && inline == "" && !strings.Contains(csp, "unsafe"), "%d lacks %q, inline %q: %s", res.Status, lacks, inline, csp))
			}
			framed := v.refused("in a frame elsewhere", v.request("GET", "/", [2]string{"Origin", ""}, [2]string{"Sec-Fetch-Site", "cross-site"}, [2]string{"Sec-Fetch-Mode", "navigate"}, [2]string{"Sec-Fetch-Dest", "iframe"}), 403)
			page := browser.Ask(v.at, v.request("GET", "/", [2]string{"Sec-Fetch-Mode", "navigate"}, [2]string{"Sec-Fetch-Dest", "document"}))
			return append(out, framed, found("control: the page is there", page.Status == 200 && strings.Contains(page.Body, "<script"), "%d %.200s", page.Status, page.Body))
		}),
	}
}
