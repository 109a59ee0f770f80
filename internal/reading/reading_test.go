package reading_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/internal/authority"
	"cloister/internal/reading"

	"github.com/google/go-cmp/cmp"
)

// request is one of "METHOD TARGET" and header lines, to a host.
func request(tb testing.TB, host, text string) *reading.Request {
	tb.Helper()
	lines := strings.Split(text, "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	to, err := authority.ParseHostPort(host, 443)
	if err != nil {
		tb.Fatal(err)
	}
	r := &reading.Request{To: to, Method: method, Header: func(yield func(string, string) bool) {
		for _, line := range lines[1:] {
			if name, value, _ := strings.Cut(line, ": "); !yield(name, value) {
				return
			}
		}
	}}
	r.Target(target)
	return r
}

func TestOthers(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"one reading", "GET /a?b=c&d=_method\nAccept: */*\nX-Request-Id: 7", ""},
		{"a method in small letters", "get /a", "GET a.test/a"},
		{"a field", "POST /a\nX-HTTP-Method-Override: DELETE", "DELETE a.test/a"},
		{"in CGI's spelling", "POST /a\nx_http_method_override: delete", "DELETE a.test/a"},
		{"a list", "POST /a\nX-HTTP-Method-Override: GET, DELETE", "GET a.test/a DELETE a.test/a"},
		{"a list in the query", "POST /a?_method[]=PUT", "PUT a.test/a?_method[]=PUT"},
		{"a list of prefixes", "GET /a\nX-Forwarded-Prefix: /b, /c", "GET a.test/b, /c/a GET a.test/b/a GET a.test/c/a"},
		{"a list of hosts", "GET /a\nX-Forwarded-Host: b.test, c.test", "GET b.test/a GET c.test/a"},
		{"the same method", "POST /a\nX-HTTP-Method: POST", ""},
		{"a query key", "POST /a?x=1&_method=put", "PUT a.test/a?x=1&_method=put"},
		{"encoded", "POST /a?%5Fmethod=p%75t", "PUT a.test/a?%5Fmethod=p%75t"},
		{"as PHP reads it", "POST /a?+.method=put", "PUT a.test/a?+.method=put"},
		{"OData", "POST /a?$httpMethod=PUT", "PUT a.test/a?$httpMethod=PUT"},
		{"a path", "GET /a\nX-Original-URL: /b?c", "GET a.test/b?c"},
		{"of a URL", "GET /a\nX-Rewrite-Url: https://z/b", "GET a.test/b"},
		{"of Traefik", "GET /a\nX-Forwarded-Uri: /b", "GET a.test/b"},
		{"a prefix", "GET /a/b\nX-Forwarded-Prefix: /x", "GET a.test/x/a/b"},
		{"a prefix that is cut off", "GET /a/b\nSCRIPT_NAME: /a", "GET a.test/a/a/b GET a.test/b"},
		{"no path", "GET /a\nX-Original-URL: /b;c", "GET a.test!"},
		{"both", "POST /a\nX-HTTP-Method: PUT\nX-Original-URL: /b", "PUT a.test/a POST a.test/b PUT a.test/b"},
		{"a host", "GET /a\nX-Forwarded-Host: b.test", "GET b.test/a"},
		{"the same host", "GET /a\nX-Forwarded-Host: A.test:443", ""},
		{"RFC 7239", "GET /a\nForwarded: for=1.2.3.4; host=\"b.test\", host=c.test", "GET b.test/a GET c.test/a"},
		{"no host", "GET /a\nX-Host: b test", "GET ?/a"},
		{"a query of another path", "POST /a\nX-Original-URL: /b?_method=PUT", "PUT a.test/a POST a.test/b?_method=PUT PUT a.test/b?_method=PUT"},
		{"requests in a body", "POST /batch/x\nContent-Type: Multipart/Mixed; boundary=b", "GET a.test! POST a.test! PUT a.test! PATCH a.test! DELETE a.test!"},
		{"requests in JSON", "POST /v1/%24Batch/\nContent-Type: application/json", "GET a.test! POST a.test! PUT a.test! PATCH a.test! DELETE a.test!"},
		{"another body", "POST /batch\nContent-Type: multipart/form-data; boundary=b", ""},
		{"fields in the query", "GET /a?%24HttpHeaders=x-goog-copy-source%3A%2Fb", "GET a.test!"},
	} {
		r := request(t, "a.test", tt.text)
		others, err := r.Others()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var got []string
		for _, o := range others {
			text := o.Method + " " + o.To.Host()
			if o.BadTo != nil {
				text = o.Method + " ?"
			}
			if o.BadPath != nil {
				text += "!"
			} else if text += o.Path.Wire(); o.Query != "" {
				text += "?" + o.Query
			}
			got = append(got, text)
		}
		if d := cmp.Diff(tt.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
	var many strings.Builder
	for i := range 30 {
		fmt.Fprintf(&many, "\nX-Original-URL: /%d", i)
	}
	if _, err := request(t, "a.test", "GET /a"+many.String()).Others(); err == nil {
		t.Error("thirty readings are judged")
	}
}

func TestObjects(t *testing.T) {
	const s3 = "mine.s3.eu-west-1.amazonaws.com"
	for _, tt := range []struct{ name, host, text, want string }{
		{"none", s3, "PUT /k\nx-amz-copy-source-if-match: x\nx-amz-copy-source-range: bytes=0-1", ""},
		{"virtual-hosted", s3, "PUT /k\nx-amz-copy-source: /other/a/b?versionId=7", "reads s3.eu-west-1.amazonaws.com/other/a/b other.s3.eu-west-1.amazonaws.com/a/b"},
		{"by path", "s3.amazonaws.com", "PUT /mine/k\nX_Amz_Copy_Source: other/a", "reads s3.amazonaws.com/other/a other.s3.amazonaws.com/a"},
		{"in the query", s3, "PUT /k?X-Amz-Copy-Source=%2Fother%2Fa", "reads s3.eu-west-1.amazonaws.com/other/a other.s3.eu-west-1.amazonaws.com/a"},
		{"an access point", s3, "PUT /k\nx-amz-copy-source: arn:aws:s3:eu-west-1:1:accesspoint/x/object/k", "bad"},
		{"dots", s3, "PUT /k\nx-amz-copy-source: /mine/../other/a", "bad"},
		{"encoded dots", s3, "PUT /k\nx-amz-copy-source: /mine/%2e%2e/other/a", "bad"},
		{"renamed", s3, "PUT /k?renameObject\nx-amz-rename-source: /a", "reads mine.s3.eu-west-1.amazonaws.com/a"},
		{"another store", "minio.test", "PUT /mine/k\nx-amz-copy-source: /other/a", "reads minio.test/other/a"},
		{"Alibaba", "oss.test", "PUT /mine/k\nx-oss-copy-source: /other/a", "reads oss.test/other/a"},
		{"Google, XML", "mine.storage.googleapis.com", "PUT /k\nx-goog-copy-source: other/a/b", "reads storage.googleapis.com/other/a/b other.storage.googleapis.com/a/b storage.googleapis.com/storage/v1/b/other/o/a%2Fb"},
		{"Google, JSON", "storage.googleapis.com", "POST /storage/v1/b/mine/o/a/rewriteTo/b/other/o/k",
			"writes storage.googleapis.com/other/k other.storage.googleapis.com/k storage.googleapis.com/storage/v1/b/other/o/k"},
		{"its double", "gcs.test", "POST /storage/v1/b/mine/o/a%2Fb/copyTo/b/other/o/k", "writes gcs.test/storage/v1/b/other/o/k"},
		{"Azure", "mine.blob.core.windows.net", "PUT /c/k\nx-ms-copy-source: https://other.blob.core.windows.net/c/a?sig=x", "reads other.blob.core.windows.net/c/a"},
		{"Azure's rename", "mine.dfs.core.windows.net", "PUT /c/k\nx-ms-rename-source: /c/a", "reads mine.dfs.core.windows.net/c/a"},
		{"WebDAV", "dav.test", "MOVE /a\nDestination: https://dav.test/b/c", "writes dav.test/b/c"},
		{"WebDAV, as Apache reads it", "dav.test", "COPY /a\nNew-Uri: /b", "writes dav.test/b"},
		{"WebDAV, a path or a host", "dav.test", "COPY /a\nDestination: //b/c", "bad"},
		{"WebDAV, without a slash", "dav.test", "COPY /a\nNew-Uri: b/c", "bad"},
		{"WebDAV, a fragment", "dav.test", "COPY /a\nDestination: /b#c", "bad"},
		{"WebDAV, a fragment of a URL", "dav.test", "COPY /a\nDestination: http://dav.test/b#c", "bad"},
		{"WebDAV, elsewhere", "dav.test", "COPY /a\nDestination: http://other.test/b", "writes other.test/b"},
		{"Swift", "swift.test", "PUT /v1/acc/mine/k\nX-Copy-From: /other/a", "reads swift.test/v1/acc/other/a"},
		{"Swift, another account", "swift.test", "PUT /v1/acc/mine/k\nX-Copy-From: /other/a\nX-Copy-From-Account: b", "bad"},
	} {
		var got []string
		for _, o := range request(t, tt.host, tt.text).Objects() {
			if o.Bad != nil {
				got = append(got, "bad")
				continue
			}
			text := map[bool]string{true: "reads", false: "writes"}[o.Reads]
			for _, n := range o.Names {
				text += " " + n.To.Host() + n.Path.Wire()
			}
			got = append(got, text)
		}
		if d := cmp.Diff(tt.want, strings.Join(got, ", ")); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

func TestLeaves(t *testing.T) {
	const s3, gcs = "mine.s3.amazonaws.com", "storage.googleapis.com"
	for _, tt := range []struct{ host, good, bad string }{
		{s3, "GET /k|PUT /k|DELETE /k|POST /k?uploads|PUT /k?partNumber=1&uploadId=x|GET /?list-type=2|POST /?delete|GET /?policy|PUT /k?tagging",
			"PUT /?policy|PUT /?acl|PUT /k?acl|POST /k?restore|PUT /?replication|PUT /?website|PUT /?notification|PUT /?lifecycle|PUT /?Inventory&id=1|PUT /?logging|PUT /?cors|DELETE /?policy|DELETE /?%70olicy|PUT /|DELETE /|POST /|PUT /?policy;x"},
		{"s3.amazonaws.com", "PUT /mine/k|POST /mine?delete", "PUT /mine?policy|PUT /mine|PUT /mine/?acl|POST /mine|PUT /mine/k?acl"},
		{gcs, "POST /upload/storage/v1/b/mine/o?name=k|DELETE /storage/v1/b/mine/o/k|GET /storage/v1/b/mine/iam|POST /storage/v1/b/mine/o/k/compose|PUT /mine/k",
			"PUT /storage/v1/b/mine/iam|PATCH /storage/v1/b/mine|POST /storage/v1/b/mine/o/k/acl|POST /storage/v1/b/mine/notificationConfigs|PATCH /storage/v1/b/mine/o/k|" +
				"POST /upload/storage/v1/b/mine/o?predefinedAcl=publicRead|PUT /mine?acl|PUT /mine?websiteConfig"},
	} {
		for want, list := range map[bool]string{true: tt.good, false: tt.bad} {
			for text := range strings.SplitSeq(list, "|") {
				if why := request(t, tt.host, text).Leaves(reading.Unknown); (why == "") != want {
					t.Errorf("%s %s: %q", tt.host, text, why)
				}
			}
		}
	}
	for field, want := range map[string]bool{
		"x-amz-acl: public-read": false, "X-Amz-Acl: bucket-owner-full-control": true, "x-amz-grant-read: id=7": false, "x_amz_grant_full_control: id=7": false, "x-goog-acl: public-read": false,
		"x-oss-callback: e30": false, "x_oss_callback: e30": false, "x-oss-process: image/resize,w_9": true, "x-oss-process: image/x|sys/saveas,o_a,b_b": false,
	} {
		if why := request(t, s3, "PUT /k\n"+field).Leaves(reading.Unknown); (why == "") != want {
			t.Errorf("%s: %q", field, why)
		}
	}
	for text, want := range map[string]bool{
		"POST /?delete\nContent-Type: multipart/form-data; boundary=b": false, "POST /k\nContent-Type: Multipart/Form-Data": false, "POST /?delete\nContent-Type: application/xml": true,
	} {
		if why := request(t, s3, text).Leaves(reading.Unknown); (why == "") != want {
			t.Errorf("%q: %q", text, why)
		}
	}
	if request(t, gcs, "PUT /mine/k?predefined_acl=publicRead").Leaves(reading.Unknown) == "" {
		t.Error("a grant in the query, with a line, is none")
	}
	if request(t, s3, "PUT /k?X-Amz-Acl=public-read").Leaves(reading.Unknown) == "" {
		t.Error("a grant in the query is none")
	}
}

func TestContent(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Content-Type: application/json": "application/json", "Content-Type: Application/JSON; charset=UTF-16": "application/json utf-16",
		"Content-Type: text/plain\ncontent_type: application/json": "odd", "Content-Type: ;": "odd", "Content-Encoding: gzip": "coded", "Content-Encoding: identity": "",
	} {
		c := request(t, "a.test", "POST /\n"+text).Content()
		got := strings.TrimSpace(c.Type + " " + c.Charset)
		if c.Coded {
			got = "coded"
		}
		if c.Odd != "" {
			got = "odd"
		}
		if got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for text, want := range map[string]string{
		`{"a":1}`: "true  true", "  [1]": "true  true", "hello": "false  true", "": "false  false", "\n\n": "false  false", "{": "true  false",
		"\xef\xbb\xbf{}": "true mark true", "\xff\xfe{\x00}\x00": "true mark true", "\xfe\xff\x00{\x00}": "true mark true",
		"{\x00}\x00": "true utf true", "\x00{\x00}": "true utf true", "\x00\x00\x00{\x00": "true utf true", "\x00abc": "false  true",
	} {
		is, odd, sure := reading.JSON([]byte(text))
		switch {
		case strings.Contains(odd, "mark"):
			odd = "mark"
		case odd != "":
			odd = "utf"
		}
		if got := fmt.Sprint(is, " ", odd, " ", sure); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// The common request costs nothing.
func TestReadDoesNotAllocate(t *testing.T) {
	fields := []string{"Accept", "*/*", "User-Agent", "curl/8", "Content-Type", "application/json", "X-Request-Id", "7", "Destination-Of-Nothing", "x", "X-Amz-Content-Sha256", "e3b0"}
	header := func(yield func(string, string) bool) {
		for pair := range slices.Chunk(fields, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
	proto := request(t, "a.test", "GET /v1/messages?beta=true&x=%20y")
	proto.Header = header
	r := new(reading.Request)
	if n := testing.AllocsPerRun(100, func() {
		*r = *proto
		for i := 0; i < len(fields); i += 2 {
			r.Note(fields[i], fields[i+1])
		}
		r.Read()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRead(b *testing.B) {
	proto := request(b, "a.test", "GET /v1/messages?beta=true&x=%20y\nAccept: */*\nUser-Agent: curl/8\nContent-Type: application/json\nX-Request-Id: 7\nAuthorization: Bearer x")
	b.ReportAllocs()
	r := new(reading.Request)
	for b.Loop() {
		*r = *proto
		for name, value := range proto.Header {
			r.Note(name, value)
		}
		r.Read()
	}
}

func FuzzRead(f *testing.F) {
	f.Add("POST", "/a?_method=x", "X-Original-URL", "/b")
	f.Add("PUT", "/storage/v1/b/a/o/b/rewriteTo/b/c/o/d", "x-amz-copy-source", "/a/%2e./b")
	f.Fuzz(func(t *testing.T, method, target, name, value string) {
		to, _ := authority.Parse("mine.s3.amazonaws.com", 443)
		r := reading.Request{To: to, Method: method, Header: func(yield func(string, string) bool) { _ = yield(name, value) && yield("X-HTTP-Method", value) }}
		r.Target(target)
		others, err := r.Others()
		if err != nil {
			return
		}
		if len(others) > reading.Most || len(r.Objects()) > reading.Most {
			t.Fatalf("%d readings, %d objects", len(others), len(r.Objects()))
		}
		_ = r.Leaves(reading.Unknown)
		for _, o := range r.Objects() {
			if o.Bad == nil && len(o.Names) == 0 {
				t.Fatal("an object without a name")
			}
		}
	})
}
