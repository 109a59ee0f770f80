package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/api"
	"cloister/internal/random"
)

const (
	// linkLife is how long a link that no one used works.
	linkLife = time.Minute
	// maxLinks bounds the links that wait: a request for more ends the oldest.
	maxLinks = 16
	// challengeLife is how long a challenge may be answered.
	challengeLife = 30 * time.Second
	// maxLogin bounds the body of a login, in bytes.
	maxLogin = 4 << 10
	// Header carries the word that no other port gets; Protocol does where a
	// browser lets no one set headers, before the word.
	Header   = "Cloister-Window"
	Protocol = "cloister.terminal"
)

// Door is where browsers come in. It is safe for use by several goroutines.
type Door struct {
	listener net.Listener
	host     string
	run      string // the folder of this run, /run/…: see below
	now      func() time.Time
	seal     []byte // of challenges: of this run
	keys     *keyring
	tries    tries

	mu    sync.Mutex
	links []link // oldest first
}

type link struct {
	sum  [sha256.Size]byte
	ends time.Time
}

// Open listens on 127.0.0.1: where the last door of dir did, if that place is
// free, so that pages which are open find the next one. At another place it knows
// no browser: their keys are kept by the old address, and whoever has that one now
// could have them sign for this.
func Open(ctx context.Context, dir string) (*Door, error) {
	keys, port, err := readKeys(dir, time.Now())
	if err != nil {
		return nil, fmt.Errorf("open the window: %w", err)
	}
	l, err := listen(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("open the window: %w", err)
	}
	d := &Door{listener: l, host: l.Addr().String(), run: runs + random.Word(16),
		now: time.Now, seal: random.Bytes(32), keys: keys}
	if err := keys.movedTo(l.Addr().(*net.TCPAddr).Port, port); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("open the window: %w", err)
	}
	return d, nil
}

// portTries is how many ports are tried before the window stays shut.
const portTries = 64

// listen takes the last port, or any of those that are the window's: never one
// that could be a cloister's at another time (docs/decisions/0018-ports-of-the-window).
func listen(ctx context.Context, last int) (net.Listener, error) {
	var config net.ListenConfig
	var err error
	for range portTries {
		port := last
		if last < api.WindowFirst || last > api.WindowLast {
			port = api.WindowFirst + mathrand.IntN(api.WindowLast-api.WindowFirst+1)
		}
		last = 0
		var l net.Listener
		if l, err = config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("none of %d ports from %d to %d is free, the last one says: %w", portTries, api.WindowFirst,
		api.WindowLast, err)
}

// Listener is where the door is.
func (d *Door) Listener() net.Listener { return d.listener }

// URL is the window's address, which lets no one in.
func (d *Door) URL() string { return "http://" + d.host + "/" }

// Link makes an address that lets one browser in, once, until it ends. The
// secret is behind the #, which no browser sends or tells anyone.
func (d *Door) Link() (url string, ends time.Time) {
	secret := random.Word(32)
	ends = d.now().Add(linkLife)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links = append(d.links, link{sha256.Sum256([]byte(secret)), ends})
	if len(d.links) > maxLinks {
		d.links = slices.Delete(d.links, 0, len(d.links)-maxLinks)
	}
	return "http://" + d.host + "/login#" + secret, ends
}

// use takes a link away and reports whether it was one. Sums are compared, so time
// tells nothing of a secret.
func (d *Door) use(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.links = slices.DeleteFunc(d.links, func(l link) bool { return !now.Before(l.ends) })
	for i, l := range d.links {
		if subtle.ConstantTimeCompare(l.sum[:], sum[:]) == 1 {
			d.links = slices.Delete(d.links, i, i+1)
			return true
		}
	}
	return false
}

// Refusal is why a request went no further.
type Refusal struct {
	Status int
	Reason string
}

func (r *Refusal) Error() string { return r.Reason }

func refuse(status int, reason string) *Refusal { return &Refusal{status, reason} }

// Handler answers pages itself, and gives next what is for /v1/ and comes from a
// browser that is known. Visitor tells next which.
func (d *Door) Handler(next http.Handler) http.Handler {
	pages := newPages(d.run)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.headers(w.Header())
		r, mayKeep := d.below(r)
		if err := d.proper(r); err != nil {
			tell(w, err)
			return
		}
		switch {
		case r.Header.Get("Service-Worker") != "" || r.Header.Get("Sec-Fetch-Dest") == "serviceworker":
			noWorker(w)
		case strings.HasPrefix(r.URL.Path, "/login/"):
			d.login(w, r)
		case strings.HasPrefix(r.URL.Path, "/v1/"):
			visitor, err := d.known(r)
			if err != nil {
				tell(w, err)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, visitor)))
		case pages.open(r.URL.Path) || d.browser(r) != nil:
			pages.serve(w, r, mayKeep)
		case r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && pages.page(r.URL.Path):
			// A person's reload after a restart: the login page signs in by the
			// browser's key, and comes back.
			http.Redirect(w, r, "/login?to="+strings.TrimPrefix(r.URL.Path, "/"), http.StatusSeeOther)
		default:
			tell(w, refuse(http.StatusUnauthorized, "this browser is not known here"))
		}
	})
}

// runs is below which each run of the guardian has a folder for itself, whose name
// no page of another port can read. Everything there is what it is at the top; but a cookie of that
// folder is sent to no other port of this host, and no other port can write over it
// (docs/decisions/0023-a-folder-of-the-run).
const runs = "/run/"

// below is a request for what is below the folder of a run, as one for the same at
// the top, and whether the run is this one: then what it asks for never changes.
// The folder of another run is one of pages that were open before a restart.
func (d *Door) below(r *http.Request) (*http.Request, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, runs)
	name, rest, more := strings.Cut(rest, "/")
	if !ok || !more || r.URL.RawPath != "" {
		return r, false
	}
	at, same := *r.URL, *r
	at.Path, same.URL = "/"+rest, &at
	return &same, runs+name == d.run
}

// lastWorker takes itself away, and whatever stood in its place.
const lastWorker = `addEventListener('install', () => skipWaiting());
addEventListener('activate', (e) => e.waitUntil(registration.unregister()));
`

// noWorker answers a browser that looks whether its service worker for this address
// is still the newest. These pages have none: it is one of a server that had the
// address before, and would answer in the window's name.
func noWorker(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, lastWorker) // a caller that left needs no answer
}

// proper refuses what no page of ours sends: another Host (DNS rebinding), the
// word of another origin, a form.
func (d *Door) proper(r *http.Request) error {
	if r.Host != d.host {
		return refuse(http.StatusMisdirectedRequest, "no such host here")
	}
	origin := r.Header.Values("Origin")
	if len(origin) > 1 || len(origin) == 1 && origin[0] != "http://"+d.host {
		return refuse(http.StatusForbidden, "another origin")
	}
	site := r.Header.Get("Sec-Fetch-Site")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if site == "" || site == "same-origin" {
			return nil
		}
		// A person may follow a link to a page, from anywhere but into a frame.
		if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
			!strings.HasPrefix(r.URL.Path, "/v1/") {
			return nil
		}
		return refuse(http.StatusForbidden, "asked by another page")
	case http.MethodPost:
	default:
		return refuse(http.StatusMethodNotAllowed, r.Method+" means nothing here")
	}
	switch {
	case len(origin) == 0:
		return refuse(http.StatusForbidden, "no origin is told")
	case site != "" && site != "same-origin":
		return refuse(http.StatusForbidden, "asked by another page")
	case r.Header.Get("Content-Type") != "application/json":
		return refuse(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	}
	return nil
}

// known is the browser that asks: its cookie and its word are of one key.
func (d *Door) known(r *http.Request) (*Visitor, error) {
	unknown := refuse(http.StatusUnauthorized, "this browser is not known here")
	k := d.browser(r)
	if k == nil {
		return nil, unknown
	}
	word := r.Header.Get(Header)
	if r.Header.Get("Upgrade") != "" {
		if r.Header.Get("Origin") == "" {
			return nil, refuse(http.StatusForbidden, "no origin is told")
		}
		_, word, _ = strings.Cut(r.Header.Get("Sec-WebSocket-Protocol"), Protocol+", ")
	}
	if subtle.ConstantTimeCompare([]byte(word), []byte(k.word)) != 1 {
		return nil, unknown
	}
	d.keys.here(k, d.now())
	return &Visitor{Key: k.ID[:8]}, nil
}
