package reading_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cloister/internal/reading"
)

const gcsHost = "storage.googleapis.com"

// Which requests say in their bodies who may use an object.
func TestGiving(t *testing.T) {
	for want, list := range map[bool]string{
		true: "POST /upload/storage/v1/b/mine/o?uploadType=multipart|POST /upload/storage/v1/b/mine/o?uploadType=resumable&name=k|POST /upload/storage/v1/b/mine/o|" +
			"POST /storage/v1/b/mine/o|POST /storage/v1/b/mine/o?uploadType=media|POST /storage/v1/b/mine/o/k/compose|POST /storage/v1/b/mine/o/k/copyTo/b/mine/o/l|" +
			"POST /storage/v1/b/mine/o/k/rewriteTo/b/mine/o/l|POST /upload/storage/v1/b/mine/o?uploadType=media&uploadType=multipart|" +
			"POST /upload/storage/v1/b/mine/o?uploadType=media&upload_protocol=multipart|POST /upload/storage/v1/b/mine/o?uploadType=media&%24upload_type=multipart|" +
			"POST /upload/storage/v1/b/mine/o?uploadType=media\nX-Goog-Upload-Protocol: multipart|POST /upload/storage/v1/b/mine/o?uploadType=resumable&upload_id=x",
		false: "POST /upload/storage/v1/b/mine/o?uploadType=media&name=k|PUT /upload/storage/v1/b/mine/o?uploadType=resumable&upload_id=x|PUT /mine/k|GET /storage/v1/b/mine/o/k",
	} {
		for text := range strings.SplitSeq(list, "|") {
			r := request(t, gcsHost, text)
			giving := r.Giving()
			if why := giving.Leaves(reading.Unknown); (why != "") != want {
				t.Errorf("%s: %q", text, why)
			}
			if why := r.Leaves(reading.Unknown); why != "" {
				t.Errorf("%s: by itself %q", text, why)
			}
		}
	}
	media := request(t, gcsHost, "PUT /upload/storage/v1/b/mine/o?uploadType=resumable&upload_id=x\nX-HTTP-Method-Override: POST")
	giving := media.Giving()
	others, err := giving.Others()
	if err != nil || len(others) != 1 {
		t.Fatal(others, err)
	}
	if as := others[0].As(&giving); as.Leaves(reading.Unknown) == "" {
		t.Error("another reading of it gives nothing")
	}
}

func TestGrants(t *testing.T) {
	const related = "POST /\nContent-Type: multipart/related; boundary=b"
	parts := func(head, metadata string) string {
		return "--b\r\nContent-Type: application/json" + head + "\r\n\r\n" + metadata + "\r\n--b\r\nContent-Type: text/plain\r\n\r\ncontents\r\n--b--\r\n"
	}
	wide := func(text string) string {
		var b strings.Builder
		for _, c := range text {
			b.WriteString(string(c) + "\x00")
		}
		return b.String()
	}
	for _, tt := range []struct{ head, body, want string }{
		{inJSON, `{"acl":[{"entity":"allUsers","role":"READER"}]}`, "acl"},
		{inJSON, `{"name":"k","name":"l","acl" : [],"acl":[]}`, "acl,acl"},
		{inJSON, `{"destination":{"\u0061\u0063L":[]}}`, "acl"},
		{inJSON, `{"x":"\\","acl":[]}`, "acl"},
		{inJSON, `{"x":"\u00","acl":[]}`, "acl"},
		{inJSON, `{'acl':[]}`, "acl"},
		{inJSON, `{acl:[]}`, "acl"},
		{inJSON, `{"acl"/**/:[]}`, "acl"},
		{inJSON, "{\"acl\"\r\n\t:[]}", "acl"},
		{inJSON, wide(`{"acl":[]}`), "acl"},
		{inJSON, `{"name":"` + strings.Repeat("x", 70000) + `","acl":[]}`, "acl"},
		{"POST /", `{"acl":[]}`, "acl"},
		{inJSON, `{"name":"acl","aclx":1,"my_acl":2,"metadata":{"x":"the acl is none"},"cacheControl":"no-cache","acls":[]}`, ""},
		{inJSON, `{"sourceObjects":[{"name":"lib/acl/a"}],"destination":{"contentType":"text/plain"}}`, ""},
		{related, parts("; charset=UTF-8", `{"name":"k"}`), ""},
		{related, parts("", `{"name":"k","acl":[]}`), "acl"},
		{related, "a \" quote before\r\n" + parts("; x=\"'\"", `{"name":"k","acl":[]}`), "acl"},
		{related, strings.ReplaceAll(parts("", `{"name":"k","acl":[]}`), "\r\n", "\n"), "acl"},
		{related, parts("\r\nContent-Transfer-Encoding: base64", "eyJhY2wiOltdfQ=="), "refused"},
		{related, parts("\r\nContent-Transfer-Encoding:\r\n base64", "eyJhY2wiOltdfQ=="), "refused"},
		{related, parts("\r\nContent-Transfer-Encoding: binary", `{}`), ""},
		{related, parts("; charset=utf-7", "{+ACI-+AGEAYwBs-"), "refused"},
		{related, parts(";\r\n charset = \"IBM037\"", "x"), "refused"},
		{related, parts("; x="+strings.Repeat("y", 2000), "{}"), "refused"},
		{related + "\nContent-Encoding: gzip", "x", "unreadable"},
		{inJSON + "; charset=utf-16", "x", "unreadable"},
		{inJSON + "\nContent-Type: text/plain", "x", "unreadable"},
		{"POST /\nContent-Type: application/x-protobuf", "x", "unreadable"},
	} {
		for _, n := range []int{1, 3, 7, 4096, 1 << 20} {
			if got := grantsIn(t, tt.head, tt.body, n); got != tt.want {
				t.Errorf("%.60q %.80q by %d: %q, want %q", tt.head, tt.body, n, got, tt.want)
			}
		}
	}
	for text, want := range map[string]bool{
		"POST /mine/k": false, "POST /storage/v1/%62/mine/o": true, "POST /mine/k\nX-Original-URL: /storage/v1/b/mine/o": true,
	} {
		r := request(t, gcsHost, text)
		if r.Grants() != nil {
			t.Errorf("%s: no body is looked into", text)
		}
		r.Body = true
		if got := r.Grants() != nil; got != want {
			t.Errorf("%s: looked into: %v", text, got)
		}
	}
}

// grantsIn reads a body in pieces of n bytes.
func grantsIn(t *testing.T, head, body string, n int) string {
	t.Helper()
	r := request(t, gcsHost, strings.Replace(head, "POST /", "POST /storage/v1/b/mine/o", 1))
	r.Body = true
	f := r.Grants()
	if f.Unreadable() != nil {
		return "unreadable"
	}
	var got []string
	found := func(name string) error {
		got = append(got, name)
		return nil
	}
	for piece := range slices.Chunk([]byte(body), n) {
		if held, err := f.Write(piece, found); err != nil || held != 0 {
			return "refused"
		}
	}
	if f.End(found) != nil {
		return "refused"
	}
	return strings.Join(got, ",")
}

func FuzzGrants(f *testing.F) {
	f.Add("multipart/related; boundary=b", "--b\r\nContent-Type: application/json\r\n\r\n{\"acl\":[]}\r\n--b--", 5)
	f.Add("application/json", `{"\u0061cl":[]}`, 2)
	f.Fuzz(func(t *testing.T, kind, body string, n int) {
		if n < 1 || strings.ContainsAny(kind, "\r\n") {
			return
		}
		whole := grantsIn(t, "POST /\nContent-Type: "+kind, body, len(body)+1)
		if got := grantsIn(t, "POST /\nContent-Type: "+kind, body, n); got != whole {
			t.Fatalf("by %d: %q, at once: %q", n, got, whole)
		}
	})
}

func BenchmarkGrants(b *testing.B) {
	r := request(b, gcsHost, strings.Replace(inJSON, "/", "/storage/v1/b/mine/o", 1))
	r.Body = true
	f := r.Grants()
	text := []byte(strings.Repeat(`{"role":"user","content":"some words here"},`, 64<<10/44))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Write(text, func(string) error { return errors.New("found") }); err != nil {
			b.Fatal(err)
		}
	}
}
