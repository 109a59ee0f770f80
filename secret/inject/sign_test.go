package inject_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/secret"
	"cloister/secret/inject"
	"cloister/secret/sigv4"
)

// The real access key of these tests.
const (
	realID    = "AKIACANARYCANARY2345"
	realKey   = "canarySecretCanarySecretCanarySecretCan+"
	realToken = "CanaryTokenCanaryTokenCanaryTokenCanaryTokenCanary=="
)

// keyWorld is a world whose session has an access key for S3 in eu-west-1.
func keyWorld(t *testing.T, http2 bool, token string, words ...secret.Words) *world {
	t.Helper()
	text := "aws_access_key_id = " + realID + "\naws_secret_access_key = " + realKey + "\n"
	if token != "" {
		text += "aws_session_token = " + token
	}
	value, err := secret.ParseAWS(text)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := secret.OpenAWS(value)
	if !ok {
		t.Fatal("what was parsed cannot be opened")
	}
	var held []inject.Held
	for _, part := range secret.AWSParts() {
		if v := key.Part(part); !v.IsZero() {
			held = append(held, inject.Held{Name: "KEY", Part: part, Placeholder: secret.NewPlaceholder(v)})
		}
	}
	if len(words) == 0 {
		words = []secret.Words{{Hosts: []string{"example.com"}, Sign: "aws", Services: []string{"s3", "dynamodb"}, Regions: []string{"eu-west-1"}}}
	}
	return newWorldOf(t, http2, value.Reveal(), held, words...)
}

// placeholder is a part of the key as the program has it.
func (w *world) placeholder(part string) string {
	for _, h := range w.parts {
		if h.Part == part {
			return h.Placeholder.Text
		}
	}
	return ""
}

// A signed request is what a program signs.
type signed struct {
	method, target, body string
	header               []string // name, value
	service, region      string
	key                  string // signs; the placeholder of the secret unless said
	payload              string // "hash": told in the header; "": told nowhere; or a word for it
	at                   time.Time
	unsigned             []string // headers that are sent and not signed
	forge                func(r *http.Request)
}

// signs makes the request as Amazon's libraries do.
func (w *world) signs(s signed) *http.Request {
	w.t.Helper()
	r, err := http.NewRequest(s.method, s.target, strings.NewReader(s.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if s.at.IsZero() {
		s.at = time.Now().UTC()
	}
	names := []string{"host", "x-amz-date"}
	r.Header.Set("X-Amz-Date", s.at.Format(sigv4.TimeForm))
	payload := sigv4.Hash([]byte(s.body))
	if s.payload != "" {
		if s.payload != "hash" {
			payload = s.payload
		}
		r.Header.Set("X-Amz-Content-Sha256", payload)
		names = append(names, "x-amz-content-sha256")
	}
	if token := w.placeholder("token"); token != "" {
		r.Header.Set("X-Amz-Security-Token", token)
		names = append(names, "x-amz-security-token")
	}
	for i := 0; i < len(s.header); i += 2 {
		r.Header.Add(s.header[i], s.header[i+1])
		if name := strings.ToLower(s.header[i]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(s.body) > 0 {
		names = append(names, "content-length")
	}
	slices.Sort(names)
	as := sigv4.Signature{KeyID: w.placeholder("id"), Day: s.at.Format("20060102"), Region: s.region, Service: s.service, Signed: names}
	key := s.key
	if key == "" {
		key = w.placeholder("secret")
	}
	as.Sum = sigv4.Sum(asSent(r, payload, int64(len(s.body))), as, sigv4.SpellingOf(s.service), key)
	r.Header.Set("Authorization", as.String())
	for i := 0; i < len(s.unsigned); i += 2 {
		r.Header.Add(s.unsigned[i], s.unsigned[i+1])
	}
	if s.forge != nil {
		s.forge(r)
	}
	return r
}

func asSent(r *http.Request, payload string, length int64) sigv4.Request {
	path, query, _ := strings.Cut(r.URL.RequestURI(), "?")
	return sigv4.Request{
		Method: r.Method, Path: path, Query: query, Time: r.Header.Get("X-Amz-Date"), Payload: payload,
		Header: func(name string) []string {
			switch {
			case name == "host" && r.Host != "":
				return []string{r.Host}
			case name == "host":
				return []string{r.URL.Host}
			case name == "content-length":
				return []string{strconv.FormatInt(length, 10)}
			}
			return r.Header.Values(name)
		},
	}
}

// amazon takes what is signed with the real key, and nothing else.
func amazon(t *testing.T, w *world, token string) {
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		body := w.seen[len(w.seen)-1]
		w.mu.Unlock()
		if _, after, ok := strings.Cut(body, "BODY:"); ok {
			body = "BODY:" + after
		} else {
			body = ""
		}
		as, err := sigv4.Parse(r.Header.Get("Authorization"))
		if err != nil {
			t.Errorf("what came cannot be read: %v", err)
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		payload := r.Header.Get("X-Amz-Content-Sha256")
		if payload == "" {
			payload = sigv4.Hash([]byte(body))
		}
		sum := sigv4.Sum(asSent(r, payload, r.ContentLength), as, sigv4.SpellingOf(as.Service), realKey)
		if sum != as.Sum || as.KeyID != realID || r.Header.Get("X-Amz-Security-Token") != token {
			rw.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(rw, "not signed with the real key: %v", r.Header)
			return
		}
		fmt.Fprintf(rw, "taken from %s %s", r.Header.Get("Authorization"), r.Header.Get("X-Amz-Security-Token"))
	}
}

func TestSignsAnew(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		for _, token := range []string{"", realToken} {
			for _, c := range []struct {
				name string
				signed
			}{
				{"get", signed{method: "GET", target: "https://example.com/bucket/key", payload: "UNSIGNED-PAYLOAD"}},
				{"list", signed{method: "GET", target: "https://example.com/bucket?list-type=2&prefix=a%2Fb%20c&delimiter=%2F", payload: "hash"}},
				{"put", signed{method: "PUT", target: "https://example.com/bucket/a%20b/c%2Bd", body: "BODY:hello", payload: "hash"}},
				{"put unsigned", signed{method: "PUT", target: "https://example.com/bucket/key", body: "BODY:hello", payload: "UNSIGNED-PAYLOAD"}},
				{"put in chunks with a checksum behind", signed{method: "PUT", target: "https://example.com/bucket/key", body: "BODY:5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", payload: "STREAMING-UNSIGNED-PAYLOAD-TRAILER", header: []string{"Content-Encoding", "aws-chunked"}}},
				{"part of an object", signed{method: "GET", target: "https://example.com/bucket/key", payload: "hash", header: []string{"Range", "bytes=0-9"}}},
				{"body whose hash nobody tells", signed{method: "POST", target: "https://example.com/", body: `BODY:{"TableName":"t"}`, service: "dynamodb", header: []string{"X-Amz-Target", "DynamoDB_20120810.GetItem", "Content-Type", "application/x-amz-json-1.0"}}},
				{"nothing", signed{method: "DELETE", target: "https://example.com/a%20b", service: "dynamodb"}},
			} {
				t.Run(fmt.Sprintf("%s token %t", c.name, token != ""), func(t *testing.T) {
					w := keyWorld(t, http2, token)
					amazon(t, w, token)
					if c.region = "eu-west-1"; c.service == "" {
						c.service = "s3"
					}
					status, text := w.do(w.signs(c.signed))
					seen, record := w.took()
					if status != http.StatusOK || !strings.Contains(text, "taken from") {
						t.Fatalf("%d %s\nserver: %s\nrecord: %s", status, text, seen, record)
					}
					for _, h := range w.parts {
						if strings.Contains(seen, h.Placeholder.Core) {
							t.Errorf("the placeholder of the %s went on: %s", h.Part, seen)
						}
					}
					if strings.Contains(text, realID) || token != "" && strings.Contains(text, token) {
						t.Errorf("the answer has the key: %s", text)
					}
					if !strings.Contains(text, w.placeholder("id")) {
						t.Errorf("the answer has no placeholder in its place: %s", text)
					}
					if want := "swap KEY signature in the header authorization " + c.method + " example.com"; !strings.HasPrefix(record, want) || strings.Contains(record, "\n") {
						t.Errorf("recorded %q", record)
					}
					if c.body != "" && !strings.Contains(seen, c.body) {
						t.Errorf("the body arrived as %q", seen)
					}
					if len(c.header) > 1 && c.header[0] == "Range" && !strings.Contains(seen, "Range: bytes=0-9") {
						t.Errorf("it asks for more than its part: %s", seen)
					}
				})
			}
		}
	})
}

func TestSignsNothingElse(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		get := func(change func(*signed)) signed {
			s := signed{method: "GET", target: "https://example.com/bucket/key", service: "s3", region: "eu-west-1", payload: "hash"}
			change(&s)
			return s
		}
		header := func(name string, change func(string) string) func(*http.Request) {
			return func(r *http.Request) { r.Header[name] = []string{change(r.Header.Get(name))} }
		}
		for _, c := range []struct {
			name string
			signed
			want string
		}{
			{"another key", get(func(s *signed) { s.key = "guessedguessedguessedguessedguessedguess" }), "not signed with the placeholder"},
			{"a changed header", get(func(s *signed) {
				s.header = []string{"X-Amz-Acl", "private"}
				s.forge = header("X-Amz-Acl", func(string) string { return "public-read" })
			}), "not signed with the placeholder"},
			{"a changed method", get(func(s *signed) { s.forge = func(r *http.Request) { r.Method = "DELETE" } }), "not signed with the placeholder"},
			{"a changed path", get(func(s *signed) { s.forge = func(r *http.Request) { r.URL.Path = "/bucket/other" } }), "not signed with the placeholder"},
			{"a changed query", get(func(s *signed) { s.forge = func(r *http.Request) { r.URL.RawQuery = "acl" } }), "not signed with the placeholder"},
			{"a header that is not signed", get(func(s *signed) { s.unsigned = []string{"X-Amz-Copy-Source", "/other/key"} }), "x-amz-copy-source is not among those that are signed"},
			{"another service", get(func(s *signed) { s.service = "iam" }), "and this is signed for iam"},
			{"another region", get(func(s *signed) { s.region = "us-east-1" }), "and this is signed for us-east-1"},
			{"another host", get(func(s *signed) { s.target = "https://other.example.com/bucket/key" }), "it is bound to example.com"},
			{"an old one", get(func(s *signed) { s.at = time.Now().UTC().Add(-20 * time.Minute) }), "is not now"},
			{"one for later", get(func(s *signed) { s.at = time.Now().UTC().Add(20 * time.Minute) }), "is not now"},
			{"chunks that are signed", get(func(s *signed) { s.payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" }), "signed chunk by chunk"},
			{"another algorithm", get(func(s *signed) {
				s.forge = header("Authorization", func(v string) string {
					return strings.Replace(v, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", 1)
				})
			}), "AWS4-ECDSA-P256-SHA256"},
			{"a longer credential", get(func(s *signed) {
				s.forge = header("Authorization", func(v string) string { return strings.Replace(v, "Credential=", "Credential=X", 1) })
			}), "not the placeholder alone"},
			{"two times", get(func(s *signed) { s.forge = func(r *http.Request) { r.Header.Add("X-Amz-Date", "20200101T000000Z") } }), "not one header x-amz-date"},
			{"two hashes", get(func(s *signed) {
				s.forge = func(r *http.Request) { r.Header.Add("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD") }
			}), "more than one header x-amz-content-sha256"},
			{"no time", get(func(s *signed) { s.forge = func(r *http.Request) { r.Header.Del("X-Amz-Date") } }), "not one header x-amz-date"},
			{"signed in the query", get(func(s *signed) {
				s.forge = func(r *http.Request) {
					r.Header.Del("Authorization")
					r.URL.RawQuery = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + strings.Split(r.Header.Get("X-Test-Id"), " ")[0]
				}
				s.header = []string{"X-Test-Id", "@id"}
			}), "presigned"},
			{"the secret in a header", get(func(s *signed) { s.unsigned = []string{"X-Note", "@secret"} }), "stands nowhere else"},
			{"the id in another header", get(func(s *signed) { s.unsigned = []string{"X-Note", "@id"} }), "stands nowhere else"},
			{"the token alone", get(func(s *signed) { s.forge = func(r *http.Request) { r.Header.Del("Authorization") } }), "stands nowhere else"},
			{"the older form", get(func(s *signed) {
				s.forge = func(r *http.Request) { r.Header.Set("Authorization", "AWS @id:c2lnbmF0dXJl") }
			}), "stands nowhere else"},
			{"too much without its hash", signed{method: "POST", target: "https://example.com/", service: "dynamodb", region: "eu-west-1", body: strings.Repeat("x", 8<<20+1)}, "holds at most 8388608 bytes"},
			{"the secret in the body of another", signed{method: "POST", target: "https://other.example.com/", service: "s3", region: "eu-west-1", payload: "hash", body: "@secret"}, "it is bound to example.com"},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := keyWorld(t, http2, realToken)
				amazon(t, w, realToken)
				at := strings.NewReplacer("@id", w.placeholder("id"), "@secret", w.placeholder("secret"))
				for _, list := range [][]string{c.header, c.unsigned} {
					for i := range list {
						list[i] = at.Replace(list[i])
					}
				}
				if len(c.body) < 100 {
					c.body = at.Replace(c.body)
				}
				r := w.signs(c.signed)
				for name, values := range r.Header {
					for i := range values {
						r.Header[name][i] = at.Replace(values[i])
					}
				}
				if c.name == "signed in the query" {
					r.Header.Del("X-Test-Id")
				}
				status, text := w.do(r)
				seen, record := w.took()
				if status < 400 || strings.Contains(seen, "Authorization: AWS4") || strings.Contains(seen, realID) {
					t.Fatalf("%d %s\nserver: %s", status, text, seen)
				}
				if !strings.Contains(text, c.want) {
					t.Errorf("told %q, want %q", text, c.want)
				}
				if !strings.Contains(record, "refuse KEY") && c.name != "too much without its hash" || strings.Contains(record, "swap") {
					t.Errorf("recorded %q", record)
				}
			})
		}
	})
}

// A binding to paths holds for all that a signed request names.
func TestSignsWithinItsPaths(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		const mine = "https://example.com/mine/"
		for _, c := range []struct {
			name, method, target string
			header               []string
			want                 string // empty for what is signed
		}{
			{"an object", "PUT", mine + "k", nil, ""},
			{"a copy within", "PUT", mine + "k", []string{"X-Amz-Copy-Source", "/mine/a%20b?versionId=7"}, ""},
			{"its part", "PUT", mine + "k?partNumber=1&uploadId=x", []string{"X-Amz-Copy-Source", "mine/a", "X-Amz-Copy-Source-Range", "bytes=0-9"}, ""},
			{"many at once", "POST", "https://example.com/mine?delete", nil, ""},
			{"a policy that is read", "GET", "https://example.com/mine?policy", nil, ""},
			{"a copy of another bucket", "PUT", mine + "k", []string{"X-Amz-Copy-Source", "/other/a"}, "X-Amz-Copy-Source names example.com/other/a"},
			{"its part of another", "PUT", mine + "k?partNumber=1&uploadId=x", []string{"X-Amz-Copy-Source", "other/a"}, "names example.com/other/a"},
			{"dots", "PUT", mine + "k", []string{"X-Amz-Copy-Source", "/mine/../other/a"}, "dot segments"},
			{"encoded dots", "PUT", mine + "k", []string{"X-Amz-Copy-Source", "/mine/%2e%2e/other/a"}, "dot segments"},
			{"an access point", "PUT", mine + "k", []string{"X-Amz-Copy-Source", "arn:aws:s3:eu-west-1:1:accesspoint/x/object/k"}, "ARN"},
			{"in the query", "PUT", mine + "k?x-amz-copy-source=%2Fother%2Fa", nil, "the query key x-amz-copy-source names"},
			{"a destination", "PUT", mine + "k", []string{"Destination", "https://example.com/other/k"}, "Destination names example.com/other/k"},
			{"the bucket's policy", "PUT", "https://example.com/mine?policy", nil, "it sets policy"},
			{"an object's grants", "PUT", mine + "k?acl", nil, "it sets acl"},
			{"a grant", "PUT", mine + "k", []string{"X-Amz-Grant-Read", "id=7"}, "it gives others a right"},
			{"replication", "PUT", "https://example.com/mine?replication", nil, "it sets replication"},
			{"another method", "PUT", mine + "k", []string{"X-HTTP-Method-Override", "DELETE"}, "it is bound to"},
			{"another path", "PUT", mine + "k", []string{"X-Original-URL", "/other/k"}, "it is bound to"},
		} {
			t.Run(c.name, func(t *testing.T) {
				methods := []string{"GET", "PUT", "POST"}
				w := keyWorld(t, http2, "", secret.Words{Hosts: []string{"example.com"}, Paths: []string{"/mine/**"}, Methods: methods, Sign: "aws", Services: []string{"s3"}})
				amazon(t, w, "")
				status, text := w.do(w.signs(signed{method: c.method, target: c.target, header: c.header, service: "s3", region: "eu-west-1", payload: "UNSIGNED-PAYLOAD"}))
				seen, record := w.took()
				if c.want == "" {
					if status != http.StatusOK || !strings.Contains(record, "swap KEY") {
						t.Errorf("%d %s\nrecord: %s", status, text, record)
					}
					return
				}
				text = html.UnescapeString(text)
				if status < 400 || strings.Contains(seen, realID) || !strings.Contains(text, c.want) || !strings.Contains(record, "refuse KEY") {
					t.Errorf("%d %s, want %q\nrecord: %s\nserver: %s", status, text, c.want, record, seen)
				}
			})
		}
	})
}

// TestSignsAsTheVaultHas holds that a new key rules from the next request on, with a
// session's token or without.
func TestSignsAsTheVaultHas(t *testing.T) {
	w := keyWorld(t, false, realToken)
	amazon(t, w, "")
	s := signed{method: "GET", target: "https://example.com/b", service: "s3", region: "eu-west-1", payload: "hash"}
	if status, _ := w.do(w.signs(s)); status != http.StatusForbidden {
		t.Errorf("control: the server took another key: %d", status)
	}
	v, err := secret.ParseAWS(`{"AccessKeyId": "` + realID + `", "SecretAccessKey": "` + realKey + `"}`)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.value = v.Reveal()
	w.mu.Unlock()
	if status, text := w.do(w.signs(s)); status != http.StatusOK {
		t.Errorf("without a token: %d %s", status, text)
	}
	w.mu.Lock()
	w.value = "no key"
	w.mu.Unlock()
	if status, text := w.do(w.signs(s)); status != http.StatusForbidden || !strings.Contains(text, "secret set KEY --kind aws") || !strings.Contains(text, "<Error><Code>AccessDenied") {
		t.Errorf("what is no key: %d %s", status, text)
	}
	w.mu.Lock()
	w.deny = "a person denied it"
	w.mu.Unlock()
	w.took()
	status, text := w.do(w.signs(s))
	if seen, _ := w.took(); status != http.StatusForbidden || !strings.Contains(text, "a person denied it") || seen != "" {
		t.Errorf("denied: %d %s %s", status, text, seen)
	}
}

// TestKeyIsNeverSent holds that a binding which would write the key into a request
// gets nothing of it.
func TestKeyIsNeverSent(t *testing.T) {
	w := newWorld(t, false, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
	v, err := secret.ParseAWS("aws_access_key_id=" + realID + "\naws_secret_access_key=" + realKey)
	if err != nil {
		t.Fatal(err)
	}
	w.value = v.Reveal()
	status, text := w.send("GET", "https://example.com/", "", "X-Api-Key", w.held.Placeholder.Text)
	if seen, _ := w.took(); status != http.StatusBadGateway || seen != "" || strings.Contains(text, realKey) {
		t.Errorf("%d %s; the server got %s", status, text, seen)
	}
}

// TestBodiesInMemory holds that what is read to be hashed is given back.
func TestBodiesInMemory(t *testing.T) {
	w := keyWorld(t, false, "")
	w.answer = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "ok") }
	s := signed{method: "POST", target: "https://example.com/", service: "dynamodb", region: "eu-west-1", body: strings.Repeat("y", 5<<20)}
	for i := range 6 { // of 8 MiB each, where a session may hold 32
		if status, text := w.do(w.signs(s)); status != http.StatusOK {
			t.Fatalf("request %d: %d %s", i, status, text)
		}
	}
}
