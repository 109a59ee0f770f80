package phone_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloister/ui/phone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk has two questions, and keeps what was answered.
type desk struct {
	mu      sync.Mutex
	answers []string
	watched int
	on      func() // an answer comes
}

func (d *desk) Waiting() []phone.Question {
	return []phone.Question{{ID: "one", Text: `{"id":"one"}`}, {ID: "two", Text: `{"id":"two"}`}}
}

func (d *desk) Watch() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched++
	return func() { d.mu.Lock(); defer d.mu.Unlock(); d.watched-- }
}

func (d *desk) Answer(_ context.Context, by phone.Device, id, digest string, allow bool) error {
	for _, q := range d.Waiting() {
		if q.ID == id && q.Digest() != digest {
			return errors.New("another question")
		}
	}
	if d.on != nil {
		d.on()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	word := "deny"
	if allow {
		word = "allow"
	}
	d.answers = append(d.answers, by.Name+" "+word+" "+id)
	return nil
}

func (d *desk) given() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.answers, ", ")
}

// device is a phone's browser.
type device struct {
	t      *testing.T
	at     string // where the tunnel leads
	origin string
	key    *ecdsa.PrivateKey
	public []byte
}

const tunnel = "https://my-tunnel.example"

func newDevice(t *testing.T, at string) *device {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &device{t, at, tunnel, key, public}
}

// post sends a call as the page does, with fields of the head replaced.
func (d *device) post(path string, body map[string]any, head ...[2]string) (int, map[string]any) {
	d.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		d.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://"+d.at+path, bytes.NewReader(text))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Host = "my-tunnel.example"
	for _, f := range append([][2]string{{"Origin", tunnel}, {"Content-Type", "application/json"}, {"Sec-Fetch-Site", "same-origin"}}, head...) {
		if f[0] == "Host" {
			req.Host = f[1]
		}
		req.Header.Set(f[0], f[1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, out
}

func (d *device) challenge() string {
	d.t.Helper()
	status, out := d.post("/challenge", map[string]any{})
	if status != http.StatusOK {
		d.t.Fatal(status, out)
	}
	return out["challenge"].(string)
}

// signed is a call with its signature.
func (d *device) signed(call string, fields map[string]any, says ...string) map[string]any {
	d.t.Helper()
	challenge := d.challenge()
	sum := sha256.Sum256([]byte(phone.Signed(call, d.origin, challenge, says...)))
	r, s, err := ecdsa.Sign(rand.Reader, d.key, sum[:])
	if err != nil {
		d.t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	id := sha256.Sum256(d.public)
	body := map[string]any{"key": hex.EncodeToString(id[:]), "challenge": challenge, "signature": signature}
	maps.Copy(body, fields)
	return body
}

func (d *device) answer(q phone.Question, word string) map[string]any {
	d.t.Helper()
	return d.signed("answer", map[string]any{"id": q.ID, "digest": q.Digest(), "answer": word}, q.ID, q.Digest(), word)
}

func (d *device) pair(url string) (int, map[string]any) {
	d.t.Helper()
	_, code, _ := strings.Cut(url, "#")
	secret, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil || len(secret) != 16 {
		d.t.Fatalf("the code is %q: %v", code, err)
	}
	return d.post("/pair", map[string]any{"public": d.public, "proof": phone.Proof(secret, d.public)})
}

func open(t *testing.T, dir string, on *desk) *phone.Door {
	t.Helper()
	d, err := phone.Open(t.Context(), dir, on, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func fine(phone.Device) error { return nil }

func TestPairAnswerUnpair(t *testing.T) {
	dir, on := t.TempDir(), &desk{}
	door := open(t, dir, on)
	if list, _, at := door.Devices(); len(list) != 0 || at != "" {
		t.Fatalf("by itself %d devices, at %q", len(list), at)
	}
	o, err := door.Pair(t.Context(), "phone", tunnel+"/")
	if err != nil || o.State != phone.ForDevice || !strings.HasPrefix(o.URL, tunnel+"/#") {
		t.Fatalf("%+v, %v", o, err)
	}
	d, thief := newDevice(t, o.At), newDevice(t, o.At)
	if status, _ := thief.post("/pair", map[string]any{"public": thief.public, "proof": phone.Proof(make([]byte, 16), thief.public)}); status != http.StatusUnauthorized {
		t.Errorf("with another code: %d", status)
	}
	if status, out := d.pair(o.URL); status != http.StatusOK {
		t.Fatal(status, out)
	}
	if status, out := d.post("/questions", d.signed("questions", nil)); status != http.StatusAccepted {
		t.Errorf("before the person's word: %d %v", status, out)
	}
	if status, _ := d.post("/answer", d.answer(on.Waiting()[0], "allow")); status == http.StatusOK || on.given() != "" {
		t.Errorf("it answers before the person's word: %d %s", status, on.given())
	}
	p := door.Pairing()
	if p.State != phone.ForCompare || len(p.Code) != len("123 456") {
		t.Fatalf("%+v", p)
	}
	if _, err := door.Confirm(p.Code, fine); err != nil {
		t.Fatal(err)
	}
	if status, out := d.post("/questions", d.signed("questions", nil)); status != http.StatusOK || len(out["questions"].([]any)) != 2 {
		t.Errorf("%d %v", status, out)
	}
	if on.mu.Lock(); on.watched != 1 {
		t.Errorf("%d watch", on.watched)
	}
	on.mu.Unlock()
	if status, out := d.post("/answer", d.answer(on.Waiting()[0], "allow")); status != http.StatusOK || on.given() != "phone allow one" {
		t.Errorf("%d %v %s", status, out, on.given())
	}
	// A restart knows it, at the same place.
	door.Close()
	again := open(t, dir, on)
	if _, _, at := again.Devices(); at != o.At {
		t.Errorf("after a restart at %q, and before at %q", at, o.At)
	}
	if status, out := d.post("/answer", d.answer(on.Waiting()[1], "deny")); status != http.StatusOK || on.given() != "phone allow one, phone deny two" {
		t.Errorf("%d %v %s", status, out, on.given())
	}
	text, err := os.ReadFile(phone.File(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, code, _ := strings.Cut(o.URL, "#"); strings.Contains(string(text), code) {
		t.Error("the file has the code")
	}
	if _, err := again.Unpair("phone", fine); err != nil {
		t.Fatal(err)
	}
	if _, _, at := again.Devices(); at != "" {
		t.Errorf("with no device it listens at %s", at)
	}
	if _, err := again.Unpair("phone", fine); !errors.Is(err, phone.ErrNoDevice) {
		t.Error(err)
	}
}

// paired is a device that is.
func paired(t *testing.T, door *phone.Door, name string) *device {
	t.Helper()
	o, err := door.Pair(t.Context(), name, tunnel)
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(t, o.At)
	if status, out := d.pair(o.URL); status != http.StatusOK {
		t.Fatal(status, out)
	}
	if _, err := door.Confirm(door.Pairing().Code, fine); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAnswersOfNoDevice(t *testing.T) {
	on := &desk{}
	door := open(t, t.TempDir(), on)
	d := paired(t, door, "phone")
	one, two := on.Waiting()[0], on.Waiting()[1]
	stranger := newDevice(t, d.at)
	with := func(body map[string]any, changes ...any) map[string]any {
		for i := 0; i < len(changes); i += 2 {
			body[changes[i].(string)] = changes[i+1]
		}
		return body
	}
	used := d.answer(one, "deny")
	if status, out := d.post("/answer", used); status != http.StatusOK {
		t.Fatal(status, out) // the control
	}
	elsewhere := *d
	elsewhere.origin = "https://other.example"
	for name, c := range map[string]struct {
		body map[string]any
		head [2]string
	}{
		"replayed":                       {body: used},
		"no signature":                   {body: with(d.answer(one, "allow"), "signature", []byte{})},
		"zeros":                          {body: with(d.answer(one, "allow"), "signature", make([]byte, 64))},
		"another question's signature":   {body: with(d.answer(one, "allow"), "id", two.ID, "digest", two.Digest())},
		"a denial as an allowance":       {body: with(d.answer(one, "deny"), "answer", "allow")},
		"a list's signature":             {body: with(d.signed("questions", nil), "id", one.ID, "digest", one.Digest(), "answer", "allow")},
		"another challenge":              {body: with(d.answer(one, "allow"), "challenge", d.challenge())},
		"signed for another address":     {body: elsewhere.answer(one, "allow")},
		"a device that is not paired":    {body: stranger.answer(one, "allow")},
		"a stranger with a paired name":  {body: with(stranger.answer(one, "allow"), "key", d.answer(one, "allow")["key"])},
		"the same bytes, another digest": {body: d.signed("answer", map[string]any{"id": one.ID, "digest": two.Digest(), "answer": "allow"}, one.ID, two.Digest(), "allow")},
		"another host":                   {d.answer(one, "allow"), [2]string{"Host", "evil.example"}},
		"the port itself":                {d.answer(one, "allow"), [2]string{"Host", d.at}},
		"another origin":                 {d.answer(one, "allow"), [2]string{"Origin", "https://evil.example"}},
		"another page":                   {d.answer(one, "allow"), [2]string{"Sec-Fetch-Site", "cross-site"}},
		"a form":                         {d.answer(one, "allow"), [2]string{"Content-Type", "text/plain"}},
		"an answer that is none":         {body: d.signed("answer", map[string]any{"id": one.ID, "digest": one.Digest(), "answer": "yes"}, one.ID, one.Digest(), "yes")},
	} {
		var head [][2]string
		if c.head[0] != "" {
			head = append(head, c.head)
		}
		if status, out := d.post("/answer", c.body, head...); status < 400 {
			t.Errorf("%s: %d %v", name, status, out)
		}
	}
	if on.given() != "phone deny one" {
		t.Errorf("answered: %s", on.given())
	}
	if _, err := door.Unpair("phone", fine); err != nil {
		t.Fatal(err)
	}
}

func TestCodes(t *testing.T) {
	on := &desk{}
	door := open(t, t.TempDir(), on)
	for _, bad := range []string{"", "my-tunnel.example", "http://my-tunnel.example", "https://u:p@my-tunnel.example", "https://a.example/path", "ftp://a.example"} {
		if _, err := door.Pair(t.Context(), "phone", bad); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
	for _, bad := range []string{"", "a b", "-x", strings.Repeat("x", 33), "é"} {
		if _, err := door.Pair(t.Context(), bad, tunnel); err == nil {
			t.Errorf("%q is a name", bad)
		}
	}
	// Used by a second device: neither is paired.
	o, err := door.Pair(t.Context(), "phone", tunnel)
	if err != nil {
		t.Fatal(err)
	}
	one, two := newDevice(t, o.At), newDevice(t, o.At)
	for range 2 { // a page that is loaded again
		if status, out := one.pair(o.URL); status != http.StatusOK {
			t.Fatal(status, out)
		}
	}
	if status, _ := two.pair(o.URL); status != http.StatusUnauthorized {
		t.Errorf("a code used twice: %d", status)
	}
	if p := door.Pairing(); p.State != phone.Nothing {
		t.Errorf("%+v", p)
	}
	if _, err := door.Confirm("123 456", fine); err == nil {
		t.Error("a pairing that is over is agreed to")
	}
	// A newer code ends the older one, and what is recorded first can refuse.
	older, err := door.Pair(t.Context(), "phone", tunnel)
	if err != nil {
		t.Fatal(err)
	}
	o, err = door.Pair(t.Context(), "phone", tunnel)
	if err != nil {
		t.Fatal(err)
	}
	one.at, two.at = o.At, o.At
	if status, _ := one.pair(older.URL); status != http.StatusUnauthorized {
		t.Errorf("an older code: %d", status)
	}
	if status, out := two.pair(o.URL); status != http.StatusOK {
		t.Fatal(status, out)
	}
	if _, err := door.Confirm(door.Pairing().Code, func(phone.Device) error { return errors.New("no record") }); err == nil || !strings.Contains(err.Error(), "no record") {
		t.Errorf("unrecorded: %v", err)
	}
	if list, _, at := door.Devices(); len(list) != 0 || at != "" {
		t.Errorf("%d devices, at %q", len(list), at)
	}
	// Guesses are counted, and lock no one out.
	o, err = door.Pair(t.Context(), "phone", tunnel)
	if err != nil {
		t.Fatal(err)
	}
	one.at = o.At
	many := false
	for range 40 {
		status, _ := two.post("/pair", map[string]any{"public": two.public, "proof": make([]byte, 32)}, [2]string{"Host", "my-tunnel.example"})
		many = many || status == http.StatusTooManyRequests
	}
	if status, out := one.pair(o.URL); !many || status != http.StatusOK {
		t.Errorf("after forty guesses: limited %t, %d %v", many, status, out)
	}
	door.Cancel()
	if p := door.Pairing(); p.State != phone.Nothing || p.At != "" {
		t.Errorf("%+v", p)
	}
}

func TestPages(t *testing.T) {
	door := open(t, t.TempDir(), &desk{})
	d := paired(t, door, "phone")
	for path, want := range map[string]int{"/": 200, "/phone.js": 200, "/phone.css": 200, "/assets/phone.js": 404, "/../x": 404, "/v1/approvals": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "my-tunnel.example"
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") || len(resp.Cookies()) > 0 {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
}

func TestBrokenFile(t *testing.T) {
	fine := fmt.Sprintf(`{"version":1,"url":%q,"devices":[{"name":"x","public":%q}]}`, tunnel, base64.StdEncoding.EncodeToString(newDevice(t, "").public))
	with := func(old, by string) string { return strings.Replace(fine, old, by, 1) }
	for _, text := range []string{
		"{", with(`:1`, `:2`), with(`[{`, `[null,{`), with(`"public":"`, `"public":"AAAA`),
		with(tunnel, ""), with(tunnel, "http://evil.example"), with(tunnel, tunnel+"/a"), with(`"x"`, `"\u001b[2J"`),
		with(`[{`, `[{"name":"x","public":"`+base64.StdEncoding.EncodeToString(newDevice(t, "").public)+`"},{`), fine,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(phone.File(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := phone.Open(t.Context(), dir, &desk{}, slog.New(slog.DiscardHandler))
		if (err == nil) != (text == fine) {
			t.Errorf("%s: %v", text, err)
		}
		if list, _, at := d.Devices(); text != fine && (len(list) > 0 || at != "") {
			t.Errorf("%s: it listens at %s", text, at)
		}
		d.Close()
	}
}

// TestUnpairedOnAFullDisk: a device that the disk would not forget is refused, and can be
// unpaired once more; the next guardian does not know it.
func TestUnpairedOnAFullDisk(t *testing.T) {
	dir, on := t.TempDir(), &desk{}
	door := open(t, dir, on)
	d := paired(t, door, "phone")
	text, err := os.ReadFile(phone.File(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(phone.File(dir)), os.Mkdir(phone.File(dir), 0o700)); err != nil { // no file is written over a folder
		t.Fatal(err)
	}
	if _, err := door.Unpair("phone", fine); err == nil || errors.Is(err, phone.ErrNoDevice) {
		t.Errorf("unpaired, where nothing is written: %v", err)
	}
	if status, _ := d.post("/answer", d.answer(on.Waiting()[0], "allow")); status < 400 || on.given() != "" {
		t.Errorf("it answers: %d %s", status, on.given())
	}
	if err := errors.Join(os.Remove(phone.File(dir)), os.WriteFile(phone.File(dir), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := door.Unpair("phone", fine); err != nil {
		t.Errorf("once more: %v", err)
	}
	door.Close()
	if list, _, at := open(t, dir, on).Devices(); len(list) != 0 || at != "" {
		t.Errorf("after a restart %+v, at %q", list, at)
	}
}

// TestAnswerOnItsWay: when a device is forgotten, or the door is closed, no answer is on
// its way any more.
func TestAnswerOnItsWay(t *testing.T) {
	for name, end := range map[string]func(*phone.Door){
		"unpair": func(d *phone.Door) { _, _ = d.Unpair("phone", fine) },
		"close":  (*phone.Door).Close,
	} {
		t.Run(name, func(t *testing.T) {
			on, ended := &desk{}, make(chan string, 1)
			door := open(t, t.TempDir(), on)
			d := paired(t, door, "phone")
			on.on = func() {
				go func() {
					end(door)
					ended <- on.given()
				}()
				select {
				case <-ended:
					ended <- "" // before the answer was given
				case <-time.After(200 * time.Millisecond):
				}
			}
			body, err := json.Marshal(d.answer(on.Waiting()[0], "allow"))
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.at+"/answer", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host, req.Header = "my-tunnel.example", http.Header{"Origin": {tunnel}, "Content-Type": {"application/json"}}
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
			if err == nil { // a door that closes may end the connection
				resp.Body.Close()
			}
			if got := <-ended; got != "phone allow one" {
				t.Errorf("ended while an answer was on its way: %q", got)
			}
		})
	}
}

// TestHeldConnections: a stranger who holds connections open, idle or in the middle of a
// request, keeps no device out, and does not have more of them.
func TestHeldConnections(t *testing.T) {
	const get = "GET /phone.css HTTP/1.1\r\nHost: my-tunnel.example\r\n"
	for name, says := range map[string]string{"idle": get + "\r\n", "silent": "", "slow": get} {
		t.Run(name, func(t *testing.T) {
			on := &desk{}
			door := open(t, t.TempDir(), on)
			d := paired(t, door, "phone")
			for range 200 {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.at)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, says); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
					t.Fatal(err)
				}
			}
			began := time.Now()
			if status, out := d.post("/answer", d.answer(on.Waiting()[0], "allow")); status != http.StatusOK || on.given() != "phone allow one" {
				t.Errorf("%d %v", status, out)
			}
			if took := time.Since(began); took > time.Minute { // what is idle would be ended after one, 64 at a time
				t.Errorf("it took %v", took)
			}
		})
	}
}
