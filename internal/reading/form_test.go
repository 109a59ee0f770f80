package reading_test

import (
	"errors"
	"strings"
	"testing"
)

const (
	urlencoded = "POST /\nContent-Type: application/x-www-form-urlencoded"
	multi      = "POST /\nContent-Type: multipart/form-data; boundary=b"
	inJSON     = "POST /\nContent-Type: application/json"
)

// methodsIn reads a body in pieces of n bytes.
func methodsIn(t *testing.T, head, body string, n int) string {
	t.Helper()
	r := request(t, "a.test", head)
	r.Body = true
	f := r.Form()
	if f == nil {
		return "none"
	}
	if err := f.Unreadable(); err != nil {
		return "unreadable"
	}
	var got []string
	found := func(m string) error {
		got = append(got, m)
		return nil
	}
	var err error
	sent := 0
	for at := 0; at < len(body) && err == nil; at += n {
		piece := body[at:min(at+n, len(body))]
		var held int
		held, err = f.Write([]byte(piece), found)
		if held > at+len(piece) {
			t.Fatalf("%d bytes wait of %d", held, at+len(piece))
		}
		if sent = at + len(piece) - held; err == nil && len(got) == 0 && body[:sent] == "a=1&_method=DELETE" {
			t.Fatalf("%.80q: the method went before it was seen", body)
		}
	}
	if err == nil {
		err = f.End(found)
	}
	if err != nil {
		return "refused"
	}
	return strings.Join(got, ",")
}

func TestForm(t *testing.T) {
	part := func(head, value string) string { return "--b\r\n" + head + "\r\n\r\n" + value + "\r\n--b--\r\n" }
	for _, tt := range []struct{ head, body, want string }{
		{urlencoded, "a=1&_method=DELETE", "DELETE"},
		{urlencoded, "_method=put&_method=DELETE&x=", "put,DELETE"},
		{urlencoded, "a=1;_METHOD=DELETE", "DELETE"},
		{urlencoded, "%5Fmethod=%44ELETE", "DELETE"},
		{urlencoded, "%5fmetho%64=DELETE&%", "DELETE"},
		{urlencoded, "%u005fmethod=DELETE", "DELETE"},
		{urlencoded, strings.Repeat("+", 900) + "_method=DELETE", "DELETE"},
		{urlencoded, strings.Repeat("%20", 300) + ".method=DELETE", "DELETE"},
		{urlencoded, "_method%00" + strings.Repeat("x", 200) + "=DELETE", "DELETE"},
		{urlencoded, "_method%00" + strings.Repeat("x", 2000) + "=DELETE", "refused"},
		{urlencoded, "X-HTTP-Method-Override=DELETE", "DELETE"},
		{urlencoded, "_httpmethod=DELETE", "DELETE"},
		{urlencoded, "_method=" + strings.Repeat("+", 400) + "DELETE", "refused"},
		{urlencoded, "a=_method=DELETE", ""},
		{urlencoded, "my_method=DELETE&_methods=x&_method", ""},
		{urlencoded, strings.Repeat("k", 5000) + "=1&_method=DELETE", "DELETE"},
		{"POST /", "_method=DELETE", "DELETE"},
		{"POST /", `{"_method":"DELETE"}`, "DELETE"},
		{"POST /\nContent-Type: ;", part(`Content-Disposition: form-data; name="_method"`, "DELETE"), "DELETE"},
		{multi, part(`Content-Disposition: form-data; name="_method"`, "DELETE"), "DELETE"},
		{multi, part("content-disposition: form-data; NAME=_method", "DELETE"), "DELETE"},
		{multi, part("Content-Disposition: form-data;\r\n\tname=_method", "DELETE"), "DELETE"},
		{multi, part("Content-Disposition: form-data; name*=utf-8''%5Fmethod", "DELETE"), "DELETE"},
		{multi, part(`Content-Disposition: form-data; name="\_method"`, "DELETE"), "DELETE"},
		{multi, part("Content-Type: text/plain\nContent-Disposition: form-data; name=\"_method\"\n", "DELETE"), "DELETE"},
		{multi, part("Content-Disposition: form-data; name=\"_method\"\r\nContent-Transfer-Encoding: base64", "REVMRVRF"), "refused"},
		{multi, part(`Content-Disposition: form-data; filename="`+strings.Repeat("x", 9000)+`"; name="_method"`, "DELETE"), "refused"},
		{multi, "--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE", "DELETE"},
		{multi, part(`Content-Disposition: form-data; name="file"; filename="a.html"`, `<input name="_method" value="DELETE">`), ""},
		{multi, part(`Content-Disposition: form-data; name="file"`, strings.Repeat("\x00C", 40000)), ""},
		{"POST /\nContent-Type: multipart/mixed; boundary=b", part("Content-Disposition: form-data; name=_method", "DELETE"), "DELETE"},
		{inJSON, `{"a":[1,{"b":"x\"y"}],"_method" : "DELETE"}`, "DELETE"},
		{inJSON, `{"\u005fmethod":"\u0044ELETE"}`, "DELETE"},
		{inJSON, `{"_method":["DELETE"]}`, "DELETE"},
		{"POST /", "_method[]=DELETE", "DELETE"},
		{"POST /", "_method%5B0%5D=DELETE", "DELETE"},
		{inJSON, `{"_method":1,"text":"_method: \"DELETE\"","list":["_method","DELETE"]}`, ""},
		{inJSON, `{"text":"` + strings.Repeat("y", 9000) + `","_method":"DELETE"}`, "DELETE"},
		{inJSON, `{"_method":"` + strings.Repeat("y", 9000) + `"}`, "refused"},
		{"POST /\nContent-Type: application/vnd.api+json", `{"_METHOD":"DELETE"}`, "DELETE"},
		{"POST /\nContent-Type: text/plain", `{"_method":"DELETE"}`, "DELETE"},
		{"POST /\nContent-Type: application/octet-stream", `_method=DELETE`, "none"},
		{inJSON + "\nContent-Encoding: gzip", "x", "unreadable"},
		{urlencoded + "; charset=utf-16", "x", "unreadable"},
	} {
		for _, n := range []int{1, 3, 7, 4096, 1 << 20} {
			if got := methodsIn(t, tt.head, tt.body, n); got != tt.want {
				t.Errorf("%.60q %.80q by %d: %q, want %q", tt.head, tt.body, n, got, tt.want)
			}
		}
	}
}

func TestWithBodyMethods(t *testing.T) {
	r := request(t, "a.test", "POST /x\nX-Original-URL: /y")
	with := r.With("PUT", "DELETE")
	others, err := with.Others()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range others {
		got = append(got, o.Method+" "+o.Path.Wire())
	}
	if s := strings.Join(got, ", "); s != "PUT /x, DELETE /x, POST /y, PUT /y, DELETE /y" {
		t.Error(s)
	}
}

func FuzzForm(f *testing.F) {
	f.Add("application/x-www-form-urlencoded", "a=1&_method=DELETE", 3)
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=_method\r\n\r\nDELETE\r\n--b--", 5)
	f.Add("application/json", `{"_method":"DELETE"}`, 2)
	f.Fuzz(func(t *testing.T, kind, body string, n int) {
		if n < 1 || strings.ContainsAny(kind, "\r\n") {
			return
		}
		whole := methodsIn(t, "POST /\nContent-Type: "+kind, body, len(body)+1)
		if got := methodsIn(t, "POST /\nContent-Type: "+kind, body, n); got != whole {
			t.Fatalf("by %d: %q, at once: %q", n, got, whole)
		}
	})
}

func BenchmarkForm(b *testing.B) {
	for name, c := range map[string][2]string{
		"urlencoded": {urlencoded, strings.Repeat("key=some%20value&", 64<<10/17)},
		"multipart":  {multi, strings.Repeat(strings.Repeat("x", 76)+"\r\n", 64<<10/78)},
		"json":       {inJSON, strings.Repeat(`{"role":"user","content":"some words here"},`, 64<<10/44)},
	} {
		b.Run(name, func(b *testing.B) {
			r := request(b, "a.test", c[0])
			r.Body = true
			f := r.Form()
			b.SetBytes(int64(len(c[1])))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Write([]byte(c[1]), func(string) error { return errors.New("found") }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
