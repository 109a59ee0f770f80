//go:build differential

package egress_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A trial is one odd request.
type trial struct {
	method, target string
	fields         []string
	body           string
}

func (q trial) String() string {
	head := q.method + " " + q.target + " HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n"
	for _, f := range q.fields {
		head += f + "\r\n"
	}
	if q.body != "" {
		head += "Content-Length: " + strconv.Itoa(len(q.body)) + "\r\n"
	}
	return head + "\r\n" + q.body
}

var (
	methods = []string{"GET", "POST", "DELETE", "PUT", "HEAD", "get", "post", "Delete", "OPTIONS", "COPY", "X-ODD"}
	targets = []string{
		"/a/b", "/a//b", "//a/b", "/a/./b", "/a/x/../b", "/a/%2e%2e/b", "/a/..%2fb", "/a%2fb", "/a%2Fb",
		"/a%5cb", "/a\\b",
		"/a;x=1/b", "/a;/../b", "/a/b;", "/a%3bx/b", "/a%00b", "/%61/b", "/A/B", "/a/b/", "/a/b/.",
		"/a/b/..", "/a%252fb", "/a%2e/b",
		"/a/%c0%ae%c0%ae/b", "/a+b", "/a%20b", "/a%09b", "/a%0ab", "/é", "/%e9", "/%C3%A9", "/e%CC%81",
		"/a?b", "/a%3fb", "/a%23b", "/a#b",
		"http://web.test/a/b", "http://WEB.TEST:80/a/b", "http://other.test/a", "web.test", "*",
		"/a/b?_method=DELETE", "/a/b?_method=delete&_method=PUT",
		"/a/b?x;_method=DELETE", "/a/b?%5fmethod=DELETE", "/a/b?_method[]=DELETE", "/a/b?_METHOD=DELETE",
		"/a/b?+_method=DELETE", "/a/b?_method=DELETE%20",
		"/a/b?X-HTTP-Method-Override=DELETE", "/~a/b", "/a/.../b", "/a/%2E%2E%2Fb", "/%2fa", "/a/b%20",
		"/a/b.", "/a/b::$DATA", "/a/b%",
	}
	fields = [][]string{
		{"X-HTTP-Method-Override: DELETE"}, {"X-HTTP-Method: DELETE"}, {"X-Method-Override: delete"},
		{"x_http_method_override: DELETE"},
		{"X-HTTP-Method-Override: GET, DELETE"},
		{"X-HTTP-Method-Override: GET", "X-HTTP-Method-Override: DELETE"},
		{"X-HTTP-Method-Override: PUT", "X-HTTP-Method: DELETE"}, {"X-HTTP_Method-Override: DELETE"},
		{"X-HTTP-Method-Override: \tDELETE "},
		{"X-Original-URL: /admin"}, {"X-Rewrite-URL: /admin"}, {"X-Forwarded-Prefix: /admin"},
		{"X-Forwarded-Prefix: /admin,/x"},
		{"X-Forwarded-Prefix: /admin", "X-Forwarded-Prefix: /other"}, {"X-Forwarded-Prefix: /admin/.."},
		{"X-Script-Name: /admin"}, {"SCRIPT_NAME: /admin"},
		{"X-Forwarded-Host: other.test"}, {"X-Forwarded-Host: other.test, web.test"},
		{"X-Forwarded-Host: web.test, other.test"},
		{"X-Forwarded-Host: other.test:81"},
		{"X-Forwarded-Host: other.test", "X-Forwarded-Host: third.test"}, {"X_Forwarded_Host: other.test"},
		{"X-Forwarded-Host: [::1]"}, {"X-Forwarded-Host: a b"}, {"X-Forwarded-Host: user@other.test"},
		{"X-Forwarded-Host: OTHER.test."}, {"Forwarded: host=other.test"},
		{"Host: other.test"}, {"Host: web.test"}, {"X-Host: other.test"},
		{"X-HTTP-Host-Override: other.test"}, {"X-Forwarded-Port: 81"}, {"X-Forwarded-Proto: https"},
		{"X-Forwarded-Server: other.test"}, {"X-Original-Host: other.test"}, {"X-Forwarded-Method: DELETE"},
		{"PATH_INFO: /admin"}, {"X-HTTP-Path-Override: /admin"},
	}
	frame   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy","arguments":{}}}`
	content = []string{
		"Content-Type: application/x-www-form-urlencoded", "Content-Type: application/json",
		"Content-Type: application/json; charset=utf-8",
		"Content-Type: application/json; charset=utf-16le", "Content-Type: application/json; charset=utf-7",
		"Content-Type: APPLICATION/JSON", "Content-Type: application/json, text/plain",
		"Content-Type: text/plain, application/json", "Content-Type: application/vnd.a+json",
		"Content-Type: text/plain", "Content-Type: application/json;charset=\"utf-8\"",
		"Content-Type: multipart/form-data; boundary=x", "Content-Type : application/json",
		"Content_Type: application/json", "Content-Type: text/plain\r\nContent-Type: application/json",
		"Content-Type: application/json\r\nContent-Type: text/plain",
		"Content-Type: application/x-www-form-urlencoded; charset=utf-16le",
		"Content-Type: text/plain; x=application/json", "",
	}
	bodies = []string{
		"_method=DELETE", "a=1&_method=delete", "%5Fmethod=PUT", "_method[]=DELETE", "_method[0]=DELETE",
		"_method%5B%5D=DELETE", "a[_method]=DELETE", "_method=GET&_method=DELETE", `{"_method":"DELETE"}`,
		`{"\u005fmethod":"PUT"}`,
		`{"a":{"_method":"DELETE"}}`, `{"_method":["DELETE"]}`, `[{"_method":"DELETE"}]`,
		"_method\x00=DELETE", "_method%00=DELETE",
		"--x\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--x--\r\n",
		frame, "[" + frame + "]", "\ufeff" + frame, " \n" + frame, wide(frame), wide("_method=DELETE"),
		wide(`{"_method":"DELETE"}`),
	}
)

// wide is a text in UTF-16, its low bytes first.
func wide(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.WriteByte(c)
		b.WriteByte(0)
	}
	return b.String()
}

// trials are each oddity alone, and mixtures of them that are the same in every run.
func trials(mixed int) []trial {
	var out []trial
	for _, target := range targets {
		out = append(out, trial{method: "GET", target: target},
			trial{method: "POST", target: target, body: "a=1", fields: content[:1]})
	}
	for _, method := range methods {
		out = append(out, trial{method: method, target: "/a/b"})
		for _, f := range fields {
			out = append(out, trial{method: method, target: "/a/b", fields: f})
		}
	}
	const accept = "Accept: application/json, text/event-stream"
	for _, method := range []string{"POST", "GET", "DELETE"} {
		for _, kind := range content {
			for _, body := range bodies {
				f := []string{accept}
				if kind != "" {
					f = append(f, kind)
				}
				out = append(out, trial{method: method, target: "/mcp", fields: f, body: body})
				if body == frame && method != "POST" {
					override := append(slices.Clone(f), "X-HTTP-Method-Override: POST")
					out = append(out, trial{method: method, target: "/mcp", fields: override, body: body})
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(16, 16))
	for range mixed {
		q := trial{method: methods[r.IntN(len(methods))], target: targets[r.IntN(len(targets))]}
		for range 1 + r.IntN(3) {
			q.fields = append(q.fields, fields[r.IntN(len(fields))]...)
		}
		if r.IntN(2) == 0 {
			if q.body = bodies[r.IntN(len(bodies))]; r.IntN(4) > 0 {
				q.fields = append(q.fields, content[r.IntN(len(content)-1)])
			}
		}
		out = append(out, q)
	}
	return out
}
