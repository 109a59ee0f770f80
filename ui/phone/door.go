package phone

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/api"
)

// Question is one that waits, as the device shows and signs it.
type Question struct {
	ID   string `json:"id"`
	Text string `json:"text"` // JSON
}

// Digest is what of a question is signed.
func (q Question) Digest() string {
	sum := sha256.Sum256([]byte(q.Text))
	return hex.EncodeToString(sum[:])
}

// Desk has the questions.
type Desk interface {
	Waiting() []Question
	// Answer gives a person's word on a question that is as its digest says.
	Answer(ctx context.Context, d Device, id, digest string, allow bool) error
	// Watch says that a person sees the questions, until leave is called.
	Watch() (leave func())
}

// Door is where devices come in. It is safe for use by several goroutines.
type Door struct {
	path string
	desk Desk
	log  *slog.Logger
	now  func() time.Time
	once *challenges

	mu      sync.Mutex
	kept    kept
	pairing *pairing
	timer   *time.Timer // of the pairing
	tries   int         // that failed since since
	since   time.Time
	leave   func() // of a device that looks
	looks   *time.Timer
	server  *http.Server
	addr    string
	closed  bool
	served  sync.WaitGroup

	// calling is held for reading by each call, and for writing by what has to wait for
	// the last one: taken before mu.
	calling sync.RWMutex
}

// File is where the devices are kept.
func File(state string) string { return filepath.Join(state, "devices.json") }

// Open is the door of an instance; it listens where devices are paired already.
func Open(ctx context.Context, state string, desk Desk, log *slog.Logger) (*Door, error) {
	d := &Door{path: File(state), desk: desk, log: log, now: time.Now,
		once: newChallenges()}
	var err error
	if d.kept, err = read(d.path); err != nil {
		return d, fmt.Errorf("paired devices: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept.Devices) > 0 {
		err = d.listen(ctx)
	}
	return d, err
}

// Devices are those that are paired, with the address of their tunnel and where it leads.
func (d *Door) Devices() (list []Device, at, port string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.kept.Devices {
		list = append(list, *x)
	}
	return list, d.kept.URL, d.at()
}

// Close ends it, after the calls that were begun.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed, d.pairing = true, nil
	d.shut()
	d.mu.Unlock()
	d.served.Wait()
	d.calling.Lock()
	d.calling.Unlock() //nolint:staticcheck // no call is left
}

// at is where the door listens, "" for nowhere.
func (d *Door) at() string { return d.addr }

// listen begins to listen, at the port of before if that is free.
func (d *Door) listen(ctx context.Context) error {
	if d.server != nil {
		return nil
	}
	if d.closed {
		return errors.New("the guardian is on its way out")
	}
	var l net.Listener
	var err error
	var config net.ListenConfig
	for range 16 {
		port := d.kept.Port
		if port < api.WindowFirst || port > api.WindowLast {
			port = api.WindowFirst + mathrand.IntN(api.WindowLast-api.WindowFirst+1)
		}
		l, err = config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil || len(d.kept.Devices) > 0 { // a person's tunnel leads to the port of before
			break
		}
		d.kept.Port = 0
	}
	if err != nil {
		return fmt.Errorf("listen for paired devices: %w", err)
	}
	d.addr, d.kept.Port = l.Addr().String(), l.Addr().(*net.TCPAddr).Port
	d.server = &http.Server{
		Handler: http.HandlerFunc(d.answer), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 20 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug), ConnState: new(connections).changed,
	}
	server := d.server
	d.served.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.Warn("paired devices are not heard any more", "error", err)
		}
	})
	return nil
}

// rest shuts the door where nothing is paired and nothing waits.
func (d *Door) rest() {
	if len(d.kept.Devices) == 0 && d.waiting() == nil {
		d.shut()
	}
}

func (d *Door) shut() {
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.looks != nil && d.looks.Stop() {
		d.leave()
	}
	d.looks = nil
	if d.server != nil {
		_ = d.server.Close()
		d.server, d.addr = nil, ""
	}
}

// Refusal is why a request went no further.
type Refusal struct {
	Status int
	Reason string
}

func (r *Refusal) Error() string { return r.Reason }

const (
	bad     = http.StatusBadRequest
	unknown = http.StatusUnauthorized
)

func refuse(status int, reason string) *Refusal { return &Refusal{status, reason} }

//go:embed assets
var assets embed.FS

// answer serves three files and four calls, and nothing beside them.
func (d *Door) answer(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"img-src data:; frame-ancestors 'none'; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'; "+
		"trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	var body any
	err := d.proper(r)
	if err == nil && r.Method == http.MethodGet {
		if err = page(w, r.URL.Path); err == nil {
			return
		}
	}
	if err == nil {
		body, err = d.call(r)
	}
	status := http.StatusOK
	if err != nil {
		status, body = http.StatusConflict, map[string]string{"error": err.Error()}
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			status = refusal.Status
		}
		d.log.Debug("a device's request is refused", "path", r.URL.Path, "reason", err)
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller that left needs no answer
}

func page(w http.ResponseWriter, at string) error {
	name, kind := map[string]string{"/": "phone.html", "/phone.js": "phone.js", "/phone.css": "phone.css"}[at], "text/html"
	text, err := assets.ReadFile("assets/" + name)
	if name == "" || err != nil {
		return refuse(http.StatusNotFound, "no such page")
	}
	switch filepath.Ext(name) {
	case ".js":
		kind = "text/javascript"
	case ".css":
		kind = "text/css"
	}
	w.Header().Set("Content-Type", kind+"; charset=utf-8")
	_, _ = w.Write(text)
	return nil
}

// proper refuses what the pages of the paired address do not send.
func (d *Door) proper(r *http.Request) error {
	d.mu.Lock()
	at, err := url.Parse(d.kept.URL)
	on := d.server != nil
	d.mu.Unlock()
	origin := r.Header.Values("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case err != nil || !on || r.Host != at.Host:
		return refuse(http.StatusMisdirectedRequest, "no such host here")
	case len(origin) > 1 || len(origin) == 1 && origin[0] != at.String():
		return refuse(http.StatusForbidden, "another origin")
	case r.Method == http.MethodGet:
		if site != "" && site != "same-origin" && (r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.URL.Path != "/") {
			return refuse(http.StatusForbidden, "asked by another page")
		}
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, r.Method+" means nothing here")
	case len(origin) == 0 || site != "" && site != "same-origin":
		return refuse(http.StatusForbidden, "asked by another page")
	case r.Header.Get("Content-Type") != "application/json":
		return refuse(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	return nil
}

// message is the body of a call. All of it that matters is signed.
type message struct {
	Public    []byte `json:"public"`
	Proof     []byte `json:"proof"`
	Key       string `json:"key"` // digest of the device's key
	Challenge string `json:"challenge"`
	Signature []byte `json:"signature"`
	ID        string `json:"id"`
	Digest    string `json:"digest"`
	Answer    string `json:"answer"`
}

// maxMessage bounds a body, in bytes.
const maxMessage = 4 << 10

func (d *Door) call(r *http.Request) (any, error) {
	var m message
	text, err := io.ReadAll(io.LimitReader(r.Body, maxMessage+1))
	if err != nil || len(text) > maxMessage || json.Unmarshal(text, &m) != nil {
		return nil, refuse(bad, "no message that can be read")
	}
	body, err := d.calls(r.Context(), r.URL.Path, m)
	if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Status == unknown && !d.another() {
		err = refuse(http.StatusTooManyRequests, "too many tries")
	}
	return body, err
}

// maxTries are given the reason in a minute.
const maxTries = 30

// another counts a try that failed; false for too many. What is right is looked at first:
// a guesser at 128 bits locks no one out.
func (d *Door) another() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.now(); now.Sub(d.since) > time.Minute {
		d.since, d.tries = now, 0
	}
	d.tries++
	return d.tries <= maxTries
}

func (d *Door) calls(ctx context.Context, path string, m message) (any, error) {
	d.calling.RLock()
	defer d.calling.RUnlock()
	type next struct {
		Challenge string     `json:"challenge"`
		Questions []Question `json:"questions,omitempty"`
	}
	fresh := next{Challenge: d.once.fresh()}
	switch path {
	case "/challenge":
		return fresh, nil
	case "/pair":
		return fresh, d.offered(m.Public, m.Proof)
	case "/questions":
		if _, err := d.whose(m, "questions"); err != nil {
			return nil, err
		}
		d.looking()
		fresh.Questions = d.desk.Waiting()
		return fresh, nil
	case "/answer":
		if m.Answer != "allow" && m.Answer != "deny" {
			return nil, refuse(bad, "want allow or deny")
		}
		x, err := d.whose(m, "answer", m.ID, m.Digest, m.Answer)
		if err != nil {
			return nil, err
		}
		return fresh, d.desk.Answer(ctx, x, m.ID, m.Digest, m.Answer == "allow")
	}
	return nil, refuse(http.StatusNotFound, "no such call")
}

// Signed is what a device signs for a call: what it is for, the address that it sees, a
// challenge, and what the call says.
func Signed(call, origin, challenge string, says ...string) string {
	return strings.Join(append([]string{"cloister " + call, origin, challenge}, says...), "\n")
}

// whose is the device that signed a message.
func (d *Door) whose(m message, call string, says ...string) (Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.waiting(); p != nil && p.public != nil && (&Device{Public: p.public}).ID() == m.Key {
		return Device{}, refuse(http.StatusAccepted, "compare the number on the computer")
	}
	i := slices.IndexFunc(d.kept.Devices, func(x *Device) bool { return x.ID() == m.Key && !x.gone })
	if i < 0 || d.closed || slices.ContainsFunc(says, func(s string) bool { return strings.Contains(s, "\n") }) {
		return Device{}, refuse(unknown, "this device is not paired")
	}
	x := d.kept.Devices[i]
	if !x.signed(Signed(call, d.kept.URL, m.Challenge, says...), m.Signature) {
		return Device{}, refuse(unknown, "the signature is not of this device")
	}
	if !d.once.use(m.Challenge) { // as after a sleep of the phone, or a restart of the guardian
		return Device{}, refuse(http.StatusPreconditionFailed, "that challenge is old, or was used")
	}
	if now := d.now(); now.Sub(x.Used) > time.Hour {
		x.Used = now
		_ = d.kept.write(d.path) // the device is known all the same
	}
	return *x, nil
}

// looksFor is how long a device that asked for the questions counts as a person who sees
// them: a page asks each second or two.
const looksFor = 10 * time.Second

func (d *Door) looking() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server == nil {
		return
	}
	if d.looks != nil && d.looks.Stop() {
		d.looks.Reset(looksFor)
		return
	}
	d.leave = d.desk.Watch()
	d.looks = time.AfterFunc(looksFor, d.leave)
}
