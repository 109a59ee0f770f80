// Package sigv4 reads and makes the signatures by which Amazon's services know who
// asks (AWS4-HMAC-SHA256, in the header Authorization).
//
// Promise: Match finds the spelling of a request under which someone signed it,
// and Sum signs it anew in the same spelling, so that what one key signed another
// signs as its client meant it. Nothing is taken for granted of a request: the
// names that are signed are those that the header tells.
//
// It does not decide which request may be signed (swap and its judge do), does not
// sign chunks of a body, and keeps no key. The algorithm is
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
//
// Most readers want Parse.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Algorithm is the first word of the header Authorization.
const Algorithm = "AWS4-HMAC-SHA256"

// TimeForm is how a request says when it was signed.
const TimeForm = "20060102T150405Z"

// The headers that the algorithm itself knows.
const (
	DateHeader    = "X-Amz-Date"
	TokenHeader   = "X-Amz-Security-Token" // a name
	PayloadHeader = "X-Amz-Content-Sha256"
)

// A Signature is what the header Authorization says.
type Signature struct {
	KeyID                string
	Day, Region, Service string
	Signed               []string // the names of the signed headers, small letters, sorted
	Sum                  string   // 64 hexadecimal digits
}

// Is reports whether a header's value is one that Parse reads, or one of its kin that
// it refuses.
func Is(authorization string) bool { return strings.HasPrefix(authorization, "AWS4-") }

// maxSigned bounds the names that are signed.
const maxSigned = 100

// Parse reads the header Authorization.
func Parse(authorization string) (Signature, error) {
	scheme, rest, _ := strings.Cut(authorization, " ")
	if scheme != Algorithm {
		return Signature{}, fmt.Errorf("the algorithm %.40q is not signed anew here, only %s is", scheme, Algorithm)
	}
	var credential, signed, sum string
	for part := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		into := map[string]*string{"Credential": &credential, "SignedHeaders": &signed, "Signature": &sum}[key]
		if into == nil || *into != "" || value == "" {
			return Signature{}, errors.New("a signature is Credential, SignedHeaders and Signature, each once")
		}
		*into = value
	}
	scope, names := strings.Split(credential, "/"), strings.Split(signed, ";")
	switch {
	case len(scope) != 5 || slices.Contains(scope, "") || scope[4] != "aws4_request":
		return Signature{}, errors.New("a credential is ID/DAY/REGION/SERVICE/aws4_request")
	case len(names) > maxSigned || !slices.IsSorted(names) || signed != strings.ToLower(signed):
		return Signature{}, errors.New("signed headers are names in small letters, in order")
	case len(slices.Compact(slices.Clone(names))) != len(names) || !slices.Contains(names, "host"):
		return Signature{}, errors.New("signed headers are told once each, host among them")
	case len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "":
		return Signature{}, errors.New("a signature is 64 hexadecimal digits")
	}
	return Signature{KeyID: scope[0], Day: scope[1], Region: scope[2], Service: scope[3], Signed: names, Sum: sum}, nil
}

// String is the header Authorization.
func (s Signature) String() string {
	return Algorithm + " Credential=" + s.KeyID + "/" + s.scope() + ", SignedHeaders=" + strings.Join(s.Signed, ";") +
		", Signature=" + s.Sum
}

func (s Signature) scope() string { return s.Day + "/" + s.Region + "/" + s.Service + "/aws4_request" }

// With is the signature with a header signed, or not.
func (s Signature) With(header string, signed bool) Signature {
	header = strings.ToLower(header)
	names := slices.DeleteFunc(slices.Clone(s.Signed), func(n string) bool { return n == header })
	if signed {
		names = append(names, header)
		slices.Sort(names)
	}
	s.Signed = names
	return s
}

// A Request is what of a request is signed.
type Request struct {
	Method string
	Path   string // as it stands in the request line, without the query
	Query  string // without its question mark
	Time   string // of DateHeader
	// Payload is the body's hash, or the word that stands for it.
	Payload string
	// Header are the values of one header; host is among them.
	Header func(name string) []string
}

// Signed tells when the request was signed.
func (r Request) Signed() (time.Time, error) {
	at, err := time.Parse(TimeForm, r.Time)
	if err != nil {
		return time.Time{}, errors.New("its time is not written as " + TimeForm)
	}
	return at, nil
}

// A Spelling is a way to write path and query before they are signed: services
// differ, and so do clients.
type Spelling struct {
	path func(string) string
	plus string // what a plus in the query is
}

// SpellingOf is how a service has it: S3 writes the path once, all others write what
// stands in the request line once more.
func SpellingOf(service string) Spelling {
	if service == "s3" {
		return Spelling{writtenOnce, "%2B"}
	}
	return Spelling{writtenTwice, "%2B"}
}

// spellings are those that clients use: a service's own, and curl takes the path as
// it is. A plus is itself, or a space to libraries that read queries as forms.
func spellings() []Spelling {
	return []Spelling{
		{writtenOnce, "%2B"}, {writtenTwice, "%2B"}, {asWritten, "%2B"},
		{writtenOnce, "%20"}, {writtenTwice, "%20"}, {asWritten, "%20"},
	}
}

// Match is the spelling under which a key signed the request; false where it did
// not sign it.
func Match(r Request, s Signature, key string) (Spelling, bool) {
	for _, way := range spellings() {
		if hmac.Equal([]byte(Sum(r, s, way, key)), []byte(s.Sum)) {
			return way, true
		}
	}
	return Spelling{}, false
}

// Sum is the signature of a request by a key.
func Sum(r Request, s Signature, way Spelling, key string) string {
	of := []byte("AWS4" + key)
	for _, part := range []string{s.Day, s.Region, s.Service, "aws4_request"} {
		of = mac(of, part)
	}
	return hex.EncodeToString(mac(of, Algorithm+"\n"+r.Time+"\n"+s.scope()+"\n"+Hash([]byte(canonical(r, s, way)))))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Hash is a body as it is signed.
func Hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// canonical is the text that is signed.
func canonical(r Request, s Signature, way Spelling) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n" + way.path(r.Path) + "\n" + way.query(r.Query) + "\n")
	for _, name := range s.Signed {
		values := slices.Clone(r.Header(name))
		for i, v := range values {
			values[i] = strings.Join(strings.FieldsFunc(v, func(c rune) bool { return c == ' ' || c == '\t' }), " ")
		}
		b.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	b.WriteString("\n" + strings.Join(s.Signed, ";") + "\n" + r.Payload)
	return b.String()
}

// SamePath reports whether two spellings of a path name the same thing to S3, which
// resolves nothing.
func SamePath(a, b string) bool { return decode(a) == decode(b) }

func asWritten(path string) string { return path }

func writtenOnce(path string) string { return encode(decode(path), "/") }

// writtenTwice is a path whose dots and empty segments are resolved, encoded once
// more than it was.
func writtenTwice(path string) string {
	var kept []string
	parts := strings.Split(path, "/")
	for _, part := range parts {
		switch part {
		case "", ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, part)
		}
	}
	out := "/" + strings.Join(kept, "/")
	if last := parts[len(parts)-1]; out != "/" && (last == "" || last == "." || last == "..") {
		out += "/"
	}
	return encode(out, "/")
}

// query sorts the pairs by what they are once they are encoded.
func (way Spelling) query(query string) string {
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		// By name first: no byte is below this one.
		pairs = append(pairs, way.word(key)+"\x00"+way.word(value))
	}
	slices.Sort(pairs)
	return strings.ReplaceAll(strings.Join(pairs, "&"), "\x00", "=")
}

func (way Spelling) word(text string) string {
	parts := strings.Split(text, "+")
	for i, part := range parts {
		parts[i] = encode(decode(part), "")
	}
	return strings.Join(parts, way.plus)
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

// encode writes every byte but the unreserved ones (RFC 3986) and those of keep as
// two digits.
func encode(text, keep string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(text)+16)
	for i := range len(text) {
		if b := text[i]; strings.IndexByte(unreserved, b) >= 0 || strings.IndexByte(keep, b) >= 0 {
			out = append(out, b)
		} else {
			out = append(out, '%', digits[b>>4], digits[b&15])
		}
	}
	return string(out)
}

// decode reads two digits behind a percent sign as a byte, and leaves other percent
// signs.
func decode(text string) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if b, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
				out, i = append(out, b[0]), i+2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}
