package corpus

import (
	"cloister/escape"
	"strings"
)

func ui02() escape.Case {
	return escape.Case{
		ID: "UI-02", Class: "DNS rebinding", Attack: "a page of another name reaches the window's port: other names, other spellings of the address, no Host, two, another port, with a good key",
		Source: "CVE-2018-14505; CVE-2025-66414; CVE-2026-42559", Layers: []string{"window"},
		Host: windowed(func(v *window) []escape.Finding {
			_, port, _ := strings.Cut(v.at, ":")
			out := []escape.Finding{v.reloads()}
			for _, host := range []string{"evil.test", "evil.test:" + port, "127.0.0.1.evil.test:" + port, "localhost.evil.test:" + port, "localhost:" + port, "0.0.0.0:" + port, "[::ffff:127.0.0.1]:" + port, "[::1]:" + port, "127.1:" + port, "2130706433:" + port, "127.0.0.1", "127.0.0.1:1", "127.0.0.1:0" + port, v.at + ".", "127.0.0.1.:" + port, v.at + "@evil.test", "evil.test#" + v.at} {
				for _, method := range []string{"GET", "POST"} {
					out = append(out, v.refused(method+" Host: "+host, v.request(method, "/v1/reload", [2]string{"Host", host}, [2]string{"Origin", "http://" + host}), 400, 403, 421))
				}
			}
			plain := v.request("GET", "/v1/status")
			return append(out,
				v.refused("no Host", strings.Replace(plain, "Host: "+v.at+"\r\n", "", 1), 400, 403, 421),
				v.refused("an empty Host", strings.Replace(plain, "Host: "+v.at, "Host: ", 1), 400, 403, 421),
				v.refused("two Hosts", strings.Replace(plain, "Host: "+v.at+"\r\n", "Host: "+v.at+"\r\nHost: evil.test\r\n", 1), 400, 403, 421),
				v.refused("the absolute form of another", strings.Replace(plain, "GET /", "GET http://evil.test/", 1), 400, 403, 421),
				v.refused("HTTP/1.0 without a Host", strings.Replace(strings.Replace(plain, "HTTP/1.1", "HTTP/1.0", 1), "Host: "+v.at+"\r\n", "", 1), 400, 403, 421))
		}),
	}
}
