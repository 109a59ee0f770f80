package sigv4_test

import (
	"strings"
	"testing"
	"time"

	"cloister/secret/sigv4"
)

// Amazon's published examples: its test suite (aws-sig-v4-test-suite, which is also
// in aws-c-auth) and the four of S3's reference.
const (
	suiteKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	s3Key    = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	suite    = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
	s3       = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
	empty    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

type vector struct {
	name, key, time, authorization string
	method, path, query, payload   string
	header                         []string // name, value
}

func vectors() []vector {
	list := []vector{
		{name: "get-vanilla", path: "/", authorization: suite + "SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{name: "get-unreserved", path: "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", authorization: suite + "SignedHeaders=host;x-amz-date, Signature=07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		{name: "get-slashes", path: "//example//", authorization: suite + "SignedHeaders=host;x-amz-date, Signature=9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"},
		{name: "query-order-key-case", path: "/", query: "Param2=value2&Param1=value1", authorization: suite + "SignedHeaders=host;x-amz-date, Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{name: "query-order-value", path: "/", query: "Param1=value2&Param1=value1", authorization: suite + "SignedHeaders=host;x-amz-date, Signature=5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
		{name: "utf8-query", path: "/", query: "ሴ=bar", authorization: suite + "SignedHeaders=host;x-amz-date, Signature=2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
		{name: "header-value-order", path: "/", header: []string{"my-header1", "value4", "my-header1", "value1", "my-header1", "value3", "my-header1", "value2"}, authorization: suite + "SignedHeaders=host;my-header1;x-amz-date, Signature=08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
		{name: "header-key-duplicate", path: "/", header: []string{"my-header1", "value2", "my-header1", "value2", "my-header1", "value1"}, authorization: suite + "SignedHeaders=host;my-header1;x-amz-date, Signature=c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
		{name: "header-value-trim", path: "/", header: []string{"my-header1", " value1", "my-header2", `"a   b   c"`}, authorization: suite + "SignedHeaders=host;my-header1;my-header2;x-amz-date, Signature=acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		{
			name: "post-x-www-form-urlencoded", method: "POST", path: "/", payload: sigv4.Hash([]byte("Param1=value1")),
			header:        []string{"content-type", "application/x-www-form-urlencoded"},
			authorization: suite + "SignedHeaders=content-type;host;x-amz-date, Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
		},
		{
			name: "session-token", path: "/", header: []string{"x-amz-security-token", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"},
			authorization: suite + "SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
		},
		{
			name: "S3 get object", key: s3Key, path: "/test.txt", header: []string{"range", "bytes=0-9"},
			authorization: s3 + "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
		},
		{
			name: "S3 put object", key: s3Key, method: "PUT", path: "/test$file.text", payload: sigv4.Hash([]byte("Welcome to Amazon S3.")),
			header:        []string{"date", "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class", "REDUCED_REDUNDANCY"},
			authorization: s3 + "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
		},
		{name: "S3 lifecycle", key: s3Key, path: "/", query: "lifecycle", authorization: s3 + "SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{name: "S3 list", key: s3Key, path: "/", query: "max-keys=2&prefix=J", authorization: s3 + "SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	}
	for i := range list {
		v := &list[i]
		host, at := "example.amazonaws.com", "20150830T123600Z"
		if v.key == s3Key {
			host, at = "examplebucket.s3.amazonaws.com", "20130524T000000Z"
		} else {
			v.key = suiteKey
		}
		if v.method == "" {
			v.method = "GET"
		}
		if v.payload == "" {
			v.payload = empty
		}
		v.time = at
		v.header = append(v.header, "host", host, "x-amz-date", at, "x-amz-content-sha256", v.payload)
	}
	return list
}

func (v vector) request() sigv4.Request {
	return sigv4.Request{
		Method: v.method, Path: v.path, Query: v.query, Time: v.time, Payload: v.payload,
		Header: func(name string) []string {
			var out []string
			for i := 0; i < len(v.header); i += 2 {
				if strings.EqualFold(v.header[i], name) {
					out = append(out, v.header[i+1])
				}
			}
			return out
		},
	}
}

func TestPublished(t *testing.T) {
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			s, err := sigv4.Parse(v.authorization)
			if err != nil {
				t.Fatal(err)
			}
			r := v.request()
			way, ok := sigv4.Match(r, s, v.key)
			if !ok {
				t.Fatal("the published signature is not known again")
			}
			if sum := sigv4.Sum(r, s, way, v.key); sum != s.Sum {
				t.Errorf("signed anew: %s", sum)
			}
			if got, want := s.String(), strings.ReplaceAll(v.authorization, ",S", ", S"); got != want {
				t.Errorf("written %s\nwant    %s", got, want)
			}
			// Whatever of it is another is another signature.
			other := map[string]sigv4.Request{}
			for _, name := range []string{"method", "path", "query", "time", "payload", "host"} {
				o := r
				switch name {
				case "method":
					o.Method = "PATCH"
				case "path":
					o.Path += "x"
				case "query":
					o.Query += "&x=1"
				case "time":
					o.Time = "20160830T123600Z"
				case "payload":
					o.Payload = "UNSIGNED-PAYLOAD"
				case "host":
					o.Header = func(n string) []string {
						if n == "host" {
							return []string{"evil.example"}
						}
						return r.Header(n)
					}
				}
				other[name] = o
			}
			for name, o := range other {
				if _, ok := sigv4.Match(o, s, v.key); ok {
					t.Errorf("another %s has the same signature", name)
				}
			}
			if _, ok := sigv4.Match(r, s, v.key+"x"); ok {
				t.Error("another key has the same signature")
			}
			for _, change := range []func(*sigv4.Signature){
				func(s *sigv4.Signature) { s.Region = "eu-west-1" },
				func(s *sigv4.Signature) { s.Service = "iam" },
				func(s *sigv4.Signature) { s.Day = "20150831" },
			} {
				o := s
				change(&o)
				if _, ok := sigv4.Match(r, o, v.key); ok {
					t.Errorf("the scope %s/%s/%s has the same signature", o.Day, o.Region, o.Service)
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	sum := strings.Repeat("a", 64)
	for _, text := range []string{
		"", "Bearer x", "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=host, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/aws4_request, SignedHeaders=host, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1//s/aws4_request, SignedHeaders=host, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws5_request, SignedHeaders=host, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=x-amz-date, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=x;host, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=host;host, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=Host, Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=host, Signature=" + sum[1:],
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=host, Signature=" + strings.ToUpper(sum),
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=host, Signature=" + sum + ", Signature=" + sum,
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=host, Signature=" + sum + ", More=1",
		"AWS4-HMAC-SHA256 Credential=A/1/r/s/aws4_request, SignedHeaders=host",
	} {
		if s, err := sigv4.Parse(text); err == nil {
			t.Errorf("%s is read as %v", text, s)
		}
	}
}

func TestWith(t *testing.T) {
	s := sigv4.Signature{Signed: []string{"host", "x-amz-date"}}
	with := s.With("X-Amz-Security-Token", true)
	if got := strings.Join(with.Signed, ";"); got != "host;x-amz-date;x-amz-security-token" {
		t.Error(got)
	}
	if got := strings.Join(with.With("X-Amz-Date", false).Signed, ";"); got != "host;x-amz-security-token" {
		t.Error(got)
	}
	if len(s.Signed) != 2 {
		t.Error("the first has changed")
	}
}

func TestSigned(t *testing.T) {
	at, err := sigv4.Request{Time: "20150830T123600Z"}.Signed()
	if err != nil || !at.Equal(time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)) {
		t.Error(at, err)
	}
	if _, err := (sigv4.Request{Time: "today"}).Signed(); err == nil {
		t.Error("today is a time")
	}
}

// FuzzParse holds that what is read is written as something that is read the same.
func FuzzParse(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.authorization)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := sigv4.Parse(text)
		if err != nil {
			return
		}
		again, err := sigv4.Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q is %q, and that is %q: %v", text, s, again, err)
		}
	})
}
