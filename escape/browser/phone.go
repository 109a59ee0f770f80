package browser

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"cloister/api"
	"cloister/api/client"
)

// Phone is a device with a key of its own, as the page of ui/phone has one. It is written
// anew here: an attack that used the product's words would share its mistakes.
type Phone struct {
	At, Origin string // where the tunnel leads, and its address
	key        *ecdsa.PrivateKey
	public     []byte
}

// NewPhone makes one.
func NewPhone(at, origin string) (*Phone, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	return &Phone{at, origin, key, public}, err
}

// Fields are the body of a call.
type Fields map[string]any

// Post sends a call, with fields of its head replaced or added.
func (p *Phone) Post(path string, body Fields, head ...[2]string) Said {
	text, err := json.Marshal(body)
	if err != nil {
		return Said{Body: err.Error()}
	}
	fields := map[string]string{
		"Host": strings.TrimPrefix(p.Origin, "https://"), "Origin": p.Origin, "Sec-Fetch-Site": "same-origin",
		"Content-Type": "application/json", "Content-Length": fmt.Sprint(len(text)),
	}
	for _, f := range head {
		fields[f[0]] = f[1]
	}
	var b strings.Builder
	b.WriteString("POST " + path + " HTTP/1.1\r\n")
	for name, value := range fields {
		b.WriteString(name + ": " + value + "\r\n")
	}
	return Ask(p.At, b.String()+"\r\n"+string(text))
}

// Pair comes with a code, base64 without padding.
func (p *Phone) Pair(code string) Said {
	secret, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil {
		return Said{Body: err.Error()}
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("cloister pair\n"))
	h.Write(p.public)
	return p.Post("/pair", Fields{"public": p.public, "proof": h.Sum(nil)})
}

// Signed is the body of a call with the phone's signature over what it says.
func (p *Phone) Signed(call string, fields Fields, says ...string) Fields {
	var c struct{ Challenge string }
	_ = json.Unmarshal([]byte(p.Post("/challenge", Fields{}).Body), &c) // without one the call is refused
	sum := sha256.Sum256([]byte(strings.Join(append([]string{"cloister " + call, p.Origin, c.Challenge}, says...), "\n")))
	signature := make([]byte, 64)
	if r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:]); err == nil {
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
	}
	id := sha256.Sum256(p.public)
	body := Fields{"key": hex.EncodeToString(id[:]), "challenge": c.Challenge, "signature": signature}
	maps.Copy(body, fields)
	return body
}

// Question is one that waits.
type Question struct{ ID, Text string }

// Questions are those that wait.
func (p *Phone) Questions() []Question {
	var out struct{ Questions []Question }
	_ = json.Unmarshal([]byte(p.Post("/questions", p.Signed("questions", nil)).Body), &out) // none, where it is refused
	return out.Questions
}

// Answer is the body of an answer.
func (p *Phone) Answer(q Question, word string) Fields {
	sum := sha256.Sum256([]byte(q.Text))
	digest := hex.EncodeToString(sum[:])
	return p.Signed("answer", Fields{"id": q.ID, "digest": digest, "answer": word}, q.ID, digest, word)
}

// Paired pairs a phone as its owner does, by the guardian's socket. It gives the code too,
// for who wants to use it once more.
func Paired(ctx context.Context, socket, name, origin string) (p *Phone, code string, err error) {
	g, err := client.Dial(ctx, socket)
	if err != nil {
		return nil, "", err
	}
	defer g.Close()
	offer, err := g.Pair(ctx, api.PairRequest{Name: name, URL: origin})
	if err != nil {
		return nil, "", err
	}
	if p, err = NewPhone(offer.At, origin); err != nil {
		return nil, "", err
	}
	_, code, _ = strings.Cut(offer.URL, "#")
	if res := p.Pair(code); res.Status != http.StatusOK {
		return nil, "", fmt.Errorf("a good code is refused: %d %s", res.Status, res.Body)
	}
	stands, err := g.Pairing(ctx)
	if err != nil {
		return nil, "", err
	}
	_, err = g.FinishPairing(ctx, stands.Code)
	return p, code, err
}

// Forged tries to answer a question without being asked to by its person: with what
// passed the tunnel, with another device, at another address. Used is an answer to another
// question that counted. It gives what each attempt was answered.
func (p *Phone) Forged(q, other Question, used Fields, code string) map[string]Said {
	stranger, err := NewPhone(p.At, p.Origin)
	if err != nil {
		return map[string]Said{"make a key": {Body: err.Error()}}
	}
	with := func(body Fields, changes Fields) Fields {
		maps.Copy(body, changes)
		return body
	}
	other0, mine := p.Answer(other, "allow"), func() Fields { return p.Answer(q, "allow") }
	key, digest := mine()["key"], mine()["digest"]
	return map[string]Said{
		"a code used twice":                    stranger.Pair(code),
		"a device that is not paired":          p.Post("/answer", stranger.Answer(q, "allow")),
		"another key under the device's name":  p.Post("/answer", with(stranger.Answer(q, "allow"), Fields{"key": key})),
		"what was sent before, again":          p.Post("/answer", used),
		"its signature for this question":      p.Post("/answer", with(used, Fields{"id": q.ID, "digest": digest})),
		"another question's fresh signature":   p.Post("/answer", with(other0, Fields{"id": q.ID, "digest": digest})),
		"a denial's signature":                 p.Post("/answer", with(p.Answer(q, "deny"), Fields{"answer": "allow"})),
		"no signature, and what a cookie is":   p.Post("/answer", with(mine(), Fields{"signature": []byte{}}), [2]string{"Cookie", "device=" + fmt.Sprint(key)}),
		"another Host":                         p.Post("/answer", mine(), [2]string{"Host", "evil.example"}),
		"the port itself as Host":              p.Post("/answer", mine(), [2]string{"Host", p.At}),
		"another Origin":                       p.Post("/answer", mine(), [2]string{"Origin", "https://evil.example"}),
		"another page of the browser":          p.Post("/answer", mine(), [2]string{"Sec-Fetch-Site", "cross-site"}),
		"the window's routes, at this address": p.Post("/v1/approvals/"+q.ID+"/approve", mine()),
	}
}
