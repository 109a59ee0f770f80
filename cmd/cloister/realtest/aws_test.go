package realtest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/secret/sigv4"
)

// bucket is as much of S3 as its programs need here. It takes what is signed with
// the canary key.
type bucket struct {
	mu      sync.Mutex
	objects map[string]string
	refused []string
}

// signed tells whether the canary key signed a request.
func signed(r *http.Request, body string) bool {
	as, err := sigv4.Parse(r.Header.Get("Authorization"))
	if err != nil || as.KeyID != canaryID || r.Header.Get("X-Amz-Security-Token") != canaryShort {
		return false
	}
	path, query, _ := strings.Cut(r.RequestURI, "?")
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if payload == "" || len(payload) == 64 {
		payload = sigv4.Hash([]byte(body))
	}
	return as.Sum == sigv4.Sum(sigv4.Request{
		Method: r.Method, Path: path, Query: query, Time: r.Header.Get("X-Amz-Date"), Payload: payload,
		Header: func(name string) []string {
			switch name {
			case "host":
				return []string{r.Host}
			case "content-length":
				return []string{fmt.Sprint(r.ContentLength)}
			}
			return r.Header.Values(name)
		},
	}, as, sigv4.SpellingOf(as.Service), canarySign)
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	body := string(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || !signed(r, body) {
		b.refused = append(b.refused, fmt.Sprintf("%s %s %v", r.Method, r.RequestURI, r.Header))
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>not with the key</Message><AWSAccessKeyId>%s</AWSAccessKeyId></Error>", canaryID)
		return
	}
	switch {
	case r.Method == http.MethodPut:
		if r.Header.Get("X-Amz-Content-Sha256") == "STREAMING-UNSIGNED-PAYLOAD-TRAILER" {
			_, body, _ = strings.Cut(body, "\r\n")
			body, _, _ = strings.Cut(body, "\r\n0\r\n")
		}
		b.objects[r.URL.Path] = body
		w.Header().Set("ETag", `"1"`)
	case r.Method == http.MethodGet && r.URL.Query().Has("list-type"):
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, "<ListBucketResult><Name>things</Name>")
		for name := range b.objects {
			fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>1</Size></Contents>", strings.TrimPrefix(name, "/"))
		}
		fmt.Fprint(w, "</ListBucketResult>")
	case r.Method == http.MethodGet:
		w.Header().Set("X-Echo", r.Header.Get("Authorization")+r.Header.Get("X-Amz-Security-Token"))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(b.objects[r.URL.Path]))
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// sdk is a program of Amazon's library for JavaScript.
const sdk = `
import { S3Client, PutObjectCommand, GetObjectCommand, ListObjectsV2Command } from "@aws-sdk/client-s3";
import { Readable } from "node:stream";
const client = new S3Client({ region: process.argv[2] });
const Bucket = "things", Key = "a b/c+d ü.txt";
try {
  await client.send(new PutObjectCommand({ Bucket, Key, Body: "hello from the library" }));
  await client.send(new PutObjectCommand({ Bucket, Key: "stream", Body: Readable.from([Buffer.from("hello in chunks")]), ContentLength: 15 }));
  const got = await client.send(new GetObjectCommand({ Bucket, Key, Range: "bytes=6-9" }));
  console.log("part:", await got.Body.transformToString());
  const list = await client.send(new ListObjectsV2Command({ Bucket, Prefix: "a b" }));
  console.log("list:", list.Contents.length);
} catch (e) {
  console.log("refused:", e.name, e.message);
  process.exit(3);
}
`

// TestSignedForAmazon holds that Amazon's own library and curl work with the
// placeholder of an access key, where it is bound and nowhere else.
func TestSignedForAmazon(t *testing.T) {
	w := newWorld(t)
	need(t, "node", "node")
	need(t, "curl", "curl")
	prefix := w.agent("claude")
	modules := filepath.Join(prefix, "lib", "aws")
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "@aws-sdk", "client-s3")); err != nil {
		needs.Missing(t, "aws", err)
	}
	store := &bucket{objects: map[string]string{}}
	for _, name := range []string{"things.s3.eu-west-1.amazonaws.com", "things.s3.us-west-2.amazonaws.com", "iam.amazonaws.com"} {
		w.net.handle(name, store)
	}
	w.opened()
	w.settings = "secrets:\n  - {name: AWS, sign: aws, services: [s3], regions: [eu-west-1], hosts: [\"*.amazonaws.com\"]}\n"
	w.configure()
	w.ran = true
	file := filepath.Join(t.TempDir(), "key.json")
	write(t, file, fmt.Sprintf("{\n  %q: 1,\n  %q: %q,\n  %q: %q,\n  %q: %q\n}\n", "Version", "AccessKeyId", canaryID, "SecretAccessKey", canarySign, "SessionToken", canaryShort), 0o600)
	if res := w.cloister(t.Context(), "secret", "set", "AWS", "--kind", "aws", "--file", file); res.status != 0 {
		t.Fatalf("secret set: %d %s", res.status, res.stderr)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}

	w.write(w.project, "s3.mjs", sdk)
	w.args = append(w.args, "--expose", modules)
	linked := "ln -sfn " + modules + "/node_modules node_modules\n"
	const object = `https://things.s3.eu-west-1.amazonaws.com/by%20curl`
	const curl = `curl -sS --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" -H "x-amz-security-token: $AWS_SESSION_TOKEN" --aws-sigv4 `
	res := w.script(linked + "env | grep ^AWS; node s3.mjs eu-west-1\n" +
		curl + "aws:amz:eu-west-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -T s3.mjs " + object + "\n" +
		curl + "aws:amz:eu-west-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -i " + object + " | grep -i -e x-echo -e 'export\\|import'")
	for _, want := range []string{"AWS_ACCESS_KEY_ID=AKIA", "part: from", "list: 2", "import { S3Client", "x-echo: AWS4-HMAC-SHA256 Credential=AKIA"} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("no %q in: %s %s\nthe store refused %q", want, res.stdout, res.stderr, store.refused)
		}
	}
	for name, want := range map[string]string{"/a b/c+d ü.txt": "hello from the library", "/stream": "hello in chunks", "/by curl": sdk} {
		if got := store.objects[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	// The same key goes for no other region and no other service.
	other := w.run("sh", "-c", linked+"node s3.mjs us-west-2; "+
		curl+`aws:amz:us-east-1:iam -d Action=ListUsers https://iam.amazonaws.com/`+"; "+
		`curl -sS "https://things.s3.eu-west-1.amazonaws.com/x?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=$AWS_ACCESS_KEY_ID"`)
	for _, want := range []string{"refused: AccessDenied cloister: the secret AWS does not sign this request", "and this is signed for us-west-2", "and this is signed for iam", "presigned"} {
		if !strings.Contains(other.stdout, want) {
			t.Errorf("no %q in: %s %s", want, other.stdout, other.stderr)
		}
	}
	if len(store.refused) > 0 {
		t.Errorf("what is not signed with the key reached the store: %q", store.refused)
	}
	checkNowhere(t, "output", []byte(res.stdout+res.stderr+other.stdout+other.stderr))
	w.checkFiles()
	story := w.cloister(t.Context(), "audit", "tail", "--kind", "secret.use", "-n", "0")
	for _, want := range []string{"allow  secret.use            things.s3.eu-west-1.amazonaws.com:443  PUT", "deny   secret.use            iam.amazonaws.com:443  POST /"} {
		if !strings.Contains(story.stdout, want) {
			t.Errorf("the record does not tell %q:\n%s", want, story.stdout)
		}
	}
}
