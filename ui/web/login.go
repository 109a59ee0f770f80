package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// login answers /login/….
func (d *Door) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		tell(w, refuse(http.StatusMethodNotAllowed, r.Method+" means nothing here"))
		return
	}
	// A browser sends these few bytes at once.
	// without it the body is bounded all the same
	_ = http.NewResponseController(w).SetReadDeadline(d.now().Add(10 * time.Second))
	var req loginRequest
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	if err == nil {
		err = json.Unmarshal(text, &req)
	}
	if err != nil {
		tell(w, refuse(http.StatusBadRequest, "no login that can be read"))
		return
	}
	var answer any
	switch r.URL.Path {
	case "/login/link":
		answer, err = d.byLink(w, req)
	case "/login/challenge":
		answer = map[string]string{"challenge": d.challenge()}
	case "/login/key":
		answer, err = d.byKey(w, req)
	case "/login/out":
		answer, err = d.out(w, r)
	default:
		err = refuse(http.StatusNotFound, "no such page")
	}
	if err != nil {
		tell(w, err)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		tell(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // a caller that left needs no answer
}

type loginRequest struct {
	Link      string `json:"link"`
	Public    []byte `json:"public"` // SubjectPublicKeyInfo of a P-256 key
	Key       string `json:"key"`    // its digest
	Challenge string `json:"challenge"`
	Signature []byte `json:"signature"` // as WebCrypto writes it: r and s, 32 bytes each
}

type loginAnswer struct {
	Key  string `json:"key"`
	Word string `json:"word"`
	Run  string `json:"run"` // the folder of this run
}

func (d *Door) byLink(w http.ResponseWriter, req loginRequest) (any, error) {
	if !d.use(req.Link) {
		return nil, d.failed("this link was used already, or is older than a minute")
	}
	k, err := d.keys.add(req.Public, d.now())
	if err != nil {
		return nil, err
	}
	return d.welcome(w, k), nil
}

func (d *Door) byKey(w http.ResponseWriter, req loginRequest) (any, error) {
	if !d.fresh(req.Challenge) {
		return nil, d.failed("that challenge is old")
	}
	k := d.keys.signed(req.Key, []byte("cloister window\nhttp://"+d.host+"\n"+req.Challenge), req.Signature, d.now())
	if k == nil {
		return nil, d.failed("this browser is not known here")
	}
	return d.welcome(w, k), nil
}

func (d *Door) welcome(w http.ResponseWriter, k *key) loginAnswer {
	// Not Secure: 127.0.0.1 has no TLS, and browsers differ in whether they take
	// such a cookie from it.
	d.setCookies(w, k.cookie, 0)
	return loginAnswer{Key: k.ID, Word: k.word, Run: d.run}
}

// setCookies sets the browser's cookie, at the top for a person who types an address, and for
// the folder of this run.
func (d *Door) setCookies(w http.ResponseWriter, value string, maxAge int) {
	for _, path := range []string{"/", d.run + "/"} {
		http.SetCookie(w, &http.Cookie{Name: d.cookieName(), Value: value, Path: path, MaxAge: maxAge, HttpOnly: true,
			SameSite: http.SameSiteStrictMode})
	}
}

// out forgets the browser that asks.
func (d *Door) out(w http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := d.known(r); err != nil {
		return nil, err
	}
	k := d.browser(r)
	if k == nil {
		return nil, refuse(http.StatusUnauthorized, "this browser is not known here")
	}
	d.setCookies(w, "", -1)
	return struct{}{}, d.keys.remove(k.ID)
}

// failed is the refusal of one try, or of too many. A good link is looked at
// first: a guesser locks no one out.
func (d *Door) failed(reason string) error {
	if !d.tries.another(d.now()) {
		return refuse(http.StatusTooManyRequests, "too many tries")
	}
	return refuse(http.StatusUnauthorized, reason)
}

// tries counts what failed.
type tries struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// maxTries are given the reason in a minute.
const maxTries = 20

func (t *tries) another(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) > time.Minute {
		t.since, t.n = now, 0
	}
	t.n++
	return t.n <= maxTries
}

// tell writes a refusal in the words of the guardian's API.
func tell(w http.ResponseWriter, err error) {
	status, code := http.StatusInternalServerError, "internal"
	if r, ok := errors.AsType[*Refusal](err); ok {
		status, code = r.Status, "forbidden"
	}
	body, _ := json.Marshal(map[string]string{"code": code, "error": err.Error()}) // two strings: it cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that left needs no answer
}
