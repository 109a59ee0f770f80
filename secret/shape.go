package secret

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	mathrand "math/rand/v2"
	"strings"
)

// unique is how many random characters make a placeholder its own: what is
// looked for in streams.
const unique = 20

// prefixes are what well-known credentials begin with, longest first where one
// begins another. Only these are kept: of an unknown credential no one knows
// where its secret begins.
var prefixes = []string{
	"sk-ant-api03-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-ant-admin01-", "sk-ant-sid01-", "sk-ant-",
	"sk-proj-", "sk-svcacct-", "sk-or-v1-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk-",
	"github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "gldt-", "glrt-",
	"xoxb-", "xoxp-", "xoxa-", "xapp-", "npm_", "pypi-", "dop_v1_", "hf_", "AIza", "ya29.", "AKIA", "ASIA",
	"gsk_", "xai-", "r8_", "tvly-", "pplx-", "lin_api_", "ntn_", "secret_", "shpat_", "SG.", "key-", "dckr_pat_",
}

// The alphabets that a credential may be of, narrowest first.
var alphabets = []string{
	"0123456789", "0123456789abcdef", "0123456789ABCDEF", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "abcdefghijklmnopqrstuvwxyz0123456789",
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// A Placeholder stands for a value inside a cloister.
type Placeholder struct {
	Text string
	// Core is the part of Text that no other text has.
	Core string
}

// NewPlaceholder makes a random text of the value's shape: its well-known
// beginning, its alphabet, its length where that leaves room enough to be
// unique. Apart from these it tells nothing of the value.
func NewPlaceholder(v Value) Placeholder {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // it never fails (crypto/rand)
	return StablePlaceholder(v, seed, false)
}

// StablePlaceholder is NewPlaceholder that gives the same text for the same seed and a
// value of the same shape. The seed of each must be its own, and known to no one. Of a
// value that is renewed outside, lasting, a program that reads when it ends finds a time
// far away, and does not try it itself.
func StablePlaceholder(v Value, seed [32]byte, lasting bool) Placeholder {
	text, from := v.Reveal(), mathrand.NewChaCha8(seed)
	random := func(alphabet string, n int) string { return draw(from, alphabet, n) }
	if p, ok := jwtLike(text, lasting, random); ok {
		return p
	}
	if uuidLike(text) {
		r := random(alphabets[1], 32)
		return Placeholder{Text: r[:8] + "-" + r[8:12] + "-" + r[12:16] + "-" + r[16:20] + "-" + r[20:],
			Core: r[8:12] + "-" + r[12:16] + "-" + r[16:20] + "-" + r[20:]}
	}
	head := prefixOf(text)
	least := unique
	if head == "AKIA" || head == "ASIA" {
		least = 16 // of 32 characters: as unique, and programs know their length
	}
	n := max(len(text)-len(head), least)
	body := random(alphabetOf(text[len(head):]), n)
	return Placeholder{Text: head + body, Core: body[:least]}
}

func uuidLike(text string) bool {
	parts := strings.Split(text, "-")
	if len(text) != 36 || len(parts) != 5 || strings.Trim(text, "0123456789abcdefABCDEF-") != "" {
		return false
	}
	return len(parts[0]) == 8 && len(parts[1]) == 4 && len(parts[2]) == 4 && len(parts[3]) == 4
}

func prefixOf(text string) string {
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) && len(text) >= len(p)+8 {
			return p
		}
	}
	return ""
}

func alphabetOf(text string) string {
	for _, a := range alphabets {
		if strings.Trim(text, a) == "" {
			return a
		}
	}
	return letters
}

// draw is n characters of an alphabet, each as likely.
func draw(from *mathrand.ChaCha8, alphabet string, n int) string {
	out := make([]byte, 0, n)
	for b := []byte{0}; len(out) < n; {
		_, _ = from.Read(b) // it never fails
		if k := int(b[0]); k < 256-256%len(alphabet) {
			out = append(out, alphabet[k%len(alphabet)])
		}
	}
	return string(out)
}

// jwtLike makes a token of three parts for one of three parts. Programs read when
// it ends, so the times are kept; who it is for is not.
func jwtLike(text string, lasting bool, random func(alphabet string, n int) string) (Placeholder, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "eyJ") || len(parts[2]) == 0 {
		return Placeholder{}, false
	}
	head, claims := map[string]any{}, map[string]any{}
	if !decodePart(parts[0], &head) || !decodePart(parts[1], &claims) {
		return Placeholder{}, false
	}
	kept := map[string]any{"sub": "cloister"}
	for _, key := range []string{"exp", "iat", "nbf"} {
		if n, ok := claims[key].(float64); ok {
			kept[key] = int64(n)
		}
	}
	if lasting { // the same for each that comes after it
		kept = map[string]any{"sub": "cloister", "exp": int64(farAway), "iat": int64(longAgo)}
	}
	alg, _ := head["alg"].(string)
	if strings.Trim(alg, letters) != "" {
		alg = ""
	}
	signature := random(letters, max(len(parts[2]), unique))
	body := encodePart(kept)
	if want := len(parts[1]); len(body) < want-12 { // as long as the real one
		kept["jti"] = random(letters, (want-len(body))*3/4-9)
		body = encodePart(kept)
	}
	return Placeholder{
		Text: encodePart(map[string]any{"alg": alg, "typ": "JWT"}) + "." + body + "." + signature,
		Core: signature[:unique],
	}, true
}

// farAway is the year 2100, for tokens that someone else renews.
const farAway = 4102444800

// longAgo is the year 2024, for their beginning.
const longAgo = 1704067200

// UnsignedToken is a token of three parts with these claims, for programs that only
// read them.
func UnsignedToken(claims string) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + enc.EncodeToString([]byte(claims)) + "." +
		enc.EncodeToString([]byte("cloister"))
}

func decodePart(part string, into *map[string]any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, into) == nil
}

func encodePart(fields map[string]any) string {
	text, err := json.Marshal(fields)
	if err != nil {
		panic("secret: " + err.Error()) // texts and numbers only
	}
	return base64.RawURLEncoding.EncodeToString(text)
}
