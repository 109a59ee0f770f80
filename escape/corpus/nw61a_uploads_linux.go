package corpus

import (
	"strings"

	"cloister/escape"
)

func nw61a() escape.Case {
	const google = escape.GoogleStore
	config := func(w *escape.World) string {
		return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: [\"gcs-bucket:mine\"]\n" +
			"  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n  hosts: {" + google + ": \"127.0.0.1:" + itoa(w.Secure) + "\"}\n"
	}
	return escape.Case{
		ID: "NW-61a", Class: "tenant preset, an upload begun elsewhere", Attack: "an upload_id that another tenant gave to the program takes the data to that tenant's bucket, " +
			"whatever bucket the path names",
		Source: "issue 16, second audit", Layers: []string{"policy"}, Needs: gate(),
		Host: with(config, together(func(r *ruled) []escape.Finding {
			const upload = "/upload/storage/v1/b/mine/o?uploadType=resumable"
			start := post(google, upload, `{"name":"k"}`, "Content-Type: application/json")
			data := func(at string, head ...string) string {
				return strings.Replace(post(google, at, "data61a", head...), "POST", "PUT", 1)
			}
			try := func(name string, passes bool, texts ...string) escape.Finding {
				before := len(r.w.Upstream())
				res := r.inside(append([]string{"say", "tls:" + google}, texts...)...)
				sent := strings.Join(r.w.Upstream()[before:], "\n")
				refused := strings.Contains(res.Stdout, "HTTP/1.1 403") && strings.Contains(res.Stdout, "upload_id")
				return found(name, strings.Contains(sent, "data61a") == passes && refused != passes, "%.400s %.200s; sent: %.500s", res.Stdout, res.Stderr, sent)
			}
			ours, theirs := "upload_id="+escape.BegunUpload, "upload_id=theirs"
			out := []escape.Finding{
				try("control: the session's own upload goes on", true, start, data(upload+"&"+ours)),
				try("control: by the other interface", true, post(google, "/mine/k", "", "x-goog-resumable: start"), data(upload+"&"+ours)),
				try("control: contents at once", true, data("/mine/k")),
				try("begun elsewhere", false, start, data(upload+"&"+theirs)),
				try("begun elsewhere, by the other interface", false, start, data("/mine/k?"+theirs)),
				try("begun elsewhere, another spelling", false, start, data(upload+"&UPLOAD%5FID=theirs")),
				try("begun elsewhere, camel case", false, start, data(upload+"&uploadId=theirs")),
				try("one of each", false, start, data(upload+"&"+ours+"&"+theirs)),
				try("in a path that a field names", false, start, data("/mine/k", "X-Original-URL: /mine/k?"+theirs)),
			}
			r.apart()
			return append(out, try("begun by an earlier session", false, data(upload+"&"+ours)))
		})),
	}
}
