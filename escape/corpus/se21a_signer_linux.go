package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

// The parts of an access key that no cloister holds. The key is of nobody.
const (
	keyID     = "AKIAESCAPE7F3AQXZVTM"
	keySecret = "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"
)

func se21a() escape.Case {
	const h = escape.TenantName
	config := func(w *escape.World) string {
		return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n" +
			"  allow:\n    - {domain: " + h + "}\n    - {domain: s3.amazonaws.com}\n" +
			"  hosts: {" + h + ": \"127.0.0.1:" + itoa(w.Secure) + "\", s3.amazonaws.com: \"127.0.0.1:" + itoa(w.Secure) + "\"}\n" +
			"secrets:\n  - {name: AWS, sign: aws, services: [s3], regions: [us-east-1], hosts: [" + h + "], paths: [\"/ok/**\"]}\n"
	}
	return escape.Case{
		ID: "SE-21a", Class: "signing beyond the binding", Attack: "an access key that is bound to paths of one bucket signs requests that name another one, or another path of it: " +
			"x-amz-copy-source signed and unsigned, in the query, parts, ARNs, Destination, other regions and hosts",
		Source: "issue 16, second audit", Layers: []string{"secrets"},
		Host: with(config, together(func(r *ruled) []escape.Finding {
			file := r.base + "/value"
			text := `{"Version": 1, "AccessKeyId": "` + keyID + `", "SecretAccessKey": "` + keySecret + `"}`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return escape.NoHost("write the access key", err)
			}
			res := r.cloister("secret", "set", "AWS", "--kind", "aws", "--file", file)
			clean(file)
			if res.Status != 0 {
				return []escape.Finding{found("set the access key", false, "status %d: %s", res.Status, res.Stderr)}
			}
			try := func(name string, signs bool, words ...string) escape.Finding {
				before := len(r.w.Upstream())
				res := r.inside(append([]string{"sign"}, words...)...)
				sent := strings.Join(r.w.Upstream()[before:], "\n")
				signed := strings.Contains(sent, "Credential="+keyID)
				held := signed == signs && res.Status == 0 && !strings.Contains(sent+res.Stdout, keySecret)
				held = held && (signs == strings.HasPrefix(res.Stdout, "HTTP/1.1 200")) && (signs || strings.Contains(res.Stdout, "HTTP/1.1 403"))
				return found(name, held, "signed %t: %.400s %.200s; sent: %.500s", signed, res.Stdout, res.Stderr, sent)
			}
			to := "tls:" + h
			put := func(name string, signs bool, target string, fields ...string) escape.Finding {
				return try(name, signs, append([]string{to, "us-east-1", "PUT", target}, fields...)...)
			}
			return []escape.Finding{
				put("control: an object is signed anew", true, "/ok/k"),
				put("control: a copy within its paths", true, "/ok/k", "x-amz-copy-source: /mine/ok/a"),
				put("a copy of another bucket", false, "/ok/k", "x-amz-copy-source: /theirs/ok/a"),
				put("a copy of another bucket, no slash", false, "/ok/k", "x-amz-copy-source: theirs/ok/a"),
				put("a copy of another bucket, unsigned", false, "/ok/k", "unsigned", "x-amz-copy-source: /theirs/ok/a"),
				put("a copy of another path of its own bucket", false, "/ok/k", "x-amz-copy-source: /mine/other/a"),
				put("a copy behind dots", false, "/ok/k", "x-amz-copy-source: /mine/ok/../other/a"),
				put("a copy behind encoded dots", false, "/ok/k", "x-amz-copy-source: /mine/ok/%2e%2e/other/a"),
				put("a copy of one version", false, "/ok/k", "x-amz-copy-source: /theirs/ok/a?versionId=1"),
				put("a part of another bucket's", false, "/ok/k?partNumber=1&uploadId=x", "x-amz-copy-source: /theirs/ok/a", "x-amz-copy-source-range: bytes=0-9"),
				put("a copy by an ARN", false, "/ok/k", "x-amz-copy-source: arn:aws:s3:us-east-1:1:accesspoint/x/object/ok/a"),
				put("a copy that the query names", false, "/ok/k?x-amz-copy-source=%2Ftheirs%2Fok%2Fa"),
				put("underscores for dashes", false, "/ok/k", "unsigned", "x_amz_copy_source: /theirs/ok/a"),
				put("two sources", false, "/ok/k", "x-amz-copy-source: /mine/ok/a", "unsigned", "X-Amz-Copy-Source: /theirs/ok/a"),
				put("Destination", false, "/ok/k", "Destination: https://theirs.s3.amazonaws.com/ok/k"),
				put("another path", false, "/other/k"),
				put("another path by a field", false, "/ok/k", "X-Original-URL: /other/k"),
				try("another region", false, to, "eu-west-1", "PUT", "/ok/k"),
				try("another host", false, "tls:s3.amazonaws.com", "us-east-1", "PUT", "/mine/ok/k"),
			}
		})),
	}
}
