package corpus

import (
	"strings"

	"cloister/escape"
)

func nw61() escape.Case {
	const mine, path, google = escape.TenantName, "s3.amazonaws.com", escape.GoogleStore
	config := func(w *escape.World) string {
		at := "\"127.0.0.1:" + itoa(w.Secure) + "\""
		return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: [\"s3-bucket:mine\", \"gcs-bucket:mine\"]\n  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n" +
			"  hosts: {" + mine + ": " + at + ", " + path + ": " + at + ", " + google + ": " + at + "}\n"
	}
	return escape.Case{
		ID: "NW-61", Class: "tenant preset, other tenant", Attack: "from the bucket of a preset to another: by Host, by path, by copies, by replication, policy and grants",
		Source: "issue 16, second audit", Layers: []string{"policy"}, Needs: gate(),
		Host: with(config, together(func(r *ruled) []escape.Finding {
			put := func(host, at string, head ...string) string {
				return strings.Replace(post(host, at, "x", head...), "POST", "PUT", 1)
			}
			try := func(name, host, text string, passes bool) escape.Finding {
				before := len(r.w.Upstream())
				res := r.inside("say", "tls:"+host, text)
				sent := strings.Join(r.w.Upstream()[before:], "\n")
				return found(name, strings.Contains(sent, "inspected: ") == passes, "%.300s %.200s; sent: %.300s", res.Stdout, res.Stderr, sent)
			}
			// A long body goes up before it is refused, and never whole: no server answers it.
			broken := func(name, text string) escape.Finding {
				res := r.inside("say", "tls:"+google, text)
				return found(name, strings.HasPrefix(res.Stdout, "HTTP/1.1 403") && !strings.Contains(res.Stdout, "sunk") && strings.Contains(res.Stdout, "acl"), "%.300s %.200s", res.Stdout, res.Stderr)
			}
			const upload, kept, given = "/upload/storage/v1/b/mine/o?uploadType=", `{"name":"k"}`, `{"name":"k","acl":[{"entity":"allUsers","role":"READER"}]}`
			typed := "Content-Type: application/json"
			parts := func(metadata, contents string, head ...string) string {
				body := "--b\r\n" + strings.Join(append(head, typed), "\r\n") + "\r\n\r\n" + metadata + "\r\n--b\r\nContent-Type: text/plain\r\n\r\n" + contents + "\r\n--b--\r\n"
				return post(google, upload+"multipart", body, "Content-Type: multipart/related; boundary=b")
			}
			return []escape.Finding{
				try("control: Google's, by parts", google, parts(kept, strings.Repeat("x", 20<<10)), true),
				try("control: Google's, contents with the word", google, post(google, upload+"media&name=k", given, typed), true),
				try("control: Google's, the start of a resumable upload", google, post(google, upload+"resumable", kept, typed), true),
				try("Google's, a grant by parts", google, parts(given, "x"), false),
				broken("Google's, a grant behind a long name", parts(`{"x":"`+strings.Repeat("y", 20<<10)+`",`+given[1:], "x")),
				try("Google's, a grant behind an open quote", google, parts(given, "x", `X-Quote: "`), false),
				try("Google's, a grant in base64", google, parts("eyJhY2wiOltdfQ==", "x", "Content-Transfer-Encoding: base64"), false),
				try("Google's, a grant to a resumable upload", google, post(google, upload+"resumable", given, typed), false),
				try("Google's, a grant that is spelled otherwise", google, post(google, upload+"resumable", strings.Replace(given, "acl", `\u0061cl`, 1), typed), false),
				try("Google's, a grant twice", google, post(google, "/storage/v1/b/mine/o", `{"acl":[],`+given[1:], typed), false),
				try("Google's, a grant that is compressed", google, post(google, upload+"resumable", given, typed, "Content-Encoding: gzip"), false),
				try("Google's, a grant with media besides", google, post(google, upload+"media&uploadType=resumable", given, typed), false),
				try("Google's, a grant by a rewrite", google, post(google, "/storage/v1/b/mine/o/a/rewriteTo/b/mine/o/k", given, typed), false),
				try("Google's, a grant by compose", google, post(google, "/storage/v1/b/mine/o/k/compose", `{"sourceObjects":[{"name":"a"}],"destination":`+given+`}`, typed), false),
				try("Google's, a grant by a patch", google, strings.Replace(post(google, "/storage/v1/b/mine/o/k", given, typed), "POST", "PATCH", 1), false),
				try("Google's, a grant in the query", google, post(google, upload+"media&name=k&predefined_acl=publicRead", "x"), false),
				try("a form", mine, post(mine, "/?delete", "--b\r\nContent-Disposition: form-data; name=\"acl\"\r\n\r\npublic-read\r\n--b--\r\n", "Content-Type: multipart/form-data; boundary=b"), false),
				try("control: an object is written", mine, put(mine, "/k"), true),
				try("control: by path", path, put(path, "/mine/k"), true),
				try("control: a copy within", mine, put(mine, "/k", "x-amz-copy-source: /mine/a"), true),
				try("Host", mine, put("theirs.s3.amazonaws.com", "/k"), false),
				try("Host, by path", mine, put(path, "/theirs/k"), false),
				try("the other's path", path, put(path, "/theirs/k"), false),
				try("the other's path behind dots", path, put(path, "/mine/../theirs/k"), false),
				try("absolute form", mine, put(mine, "https://theirs.s3.amazonaws.com/k"), false),
				try("X-Forwarded-Host", mine, put(mine, "/k", "X-Forwarded-Host: theirs.s3.amazonaws.com"), false),
				try("a copy of the other's", mine, put(mine, "/k", "x-amz-copy-source: /theirs/a"), false),
				try("a part of the other's", mine, put(mine, "/k?partNumber=1&uploadId=x", "x-amz-copy-source: theirs/a", "x-amz-copy-source-range: bytes=0-9"), false),
				try("a copy that the query names", mine, put(mine, "/k?x-amz-copy-source=theirs%2Fa"), false),
				try("a copy by an ARN", mine, put(mine, "/k", "x-amz-copy-source: arn:aws:s3:us-east-1:1:accesspoint/x/object/a"), false),
				try("replication", mine, put(mine, "/?replication"), false),
				try("policy", mine, put(mine, "/?policy"), false),
				try("policy, by path", path, put(path, "/mine?policy"), false),
				try("a grant", mine, put(mine, "/k", "x-amz-grant-read: id=7"), false),
				try("for everybody", mine, put(mine, "/k", "x-amz-acl: public-read"), false),
				try("for everybody, in the query", mine, put(mine, "/k?X-Amz-Acl=public-read"), false),
				try("grants of an object", mine, put(mine, "/k?acl"), false),
				try("notifications", mine, put(mine, "/?notification"), false),
				try("the inventory", mine, put(mine, "/?inventory&id=1"), false),
				try("restored elsewhere", mine, strings.Replace(put(mine, "/k?restore"), "PUT", "POST", 1), false),
				try("a call of another server", mine, put(mine, "/k", "x-oss-callback: e30="), false),
				try("written elsewhere", mine, put(mine, "/k", "x-oss-process: image/resize,w_9|sys/saveas,o_aw==,b_dGhlaXJz"), false),
				try("fields in the query", mine, put(mine, "/k?%24httpHeaders=x-amz-copy-source%3A%2Ftheirs%2Fa"), false),
				try("WebDAV", mine, put(mine, "/k", "Destination: https://theirs.s3.amazonaws.com/k"), false),
			}
		})),
	}
}
