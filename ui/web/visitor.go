package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"cloister/internal/random"
)

// Visitor is a browser that is known.
type Visitor struct {
	Key string // first digits of its key's digest, for the record
}

type visitorKey struct{}

// From is the browser that a request came from, nil for none.
func From(ctx context.Context) *Visitor {
	v, _ := ctx.Value(visitorKey{}).(*Visitor)
	return v
}

// cookieName is another one for each port: a host's ports share their cookies.
func (d *Door) cookieName() string {
	_, port, _ := strings.Cut(d.host, ":")
	return "cloister-" + port
}

// browser is whose cookie a request carries, nil for no one's. A server on another
// port can set a cookie of this name that comes before ours: each is looked at.
func (d *Door) browser(r *http.Request) *key {
	for _, c := range r.CookiesNamed(d.cookieName()) {
		if k := d.keys.byCookie(c.Value, d.now()); k != nil {
			return k
		}
	}
	return nil
}

// challenge is a moment, sealed: nothing has to be kept for a browser that never answers.
func (d *Door) challenge() string {
	b := binary.BigEndian.AppendUint64(random.Bytes(16), uint64(d.now().UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(b, d.sealOf(b)...))
}

func (d *Door) sealOf(b []byte) []byte {
	h := hmac.New(sha256.New, d.seal)
	h.Write(b)
	return h.Sum(nil)
}

// fresh reports whether a challenge is ours and young enough.
func (d *Door) fresh(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 24+sha256.Size || !hmac.Equal(b[24:], d.sealOf(b[:24])) {
		return false
	}
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(b[16:24])))
	return d.now().Sub(made) < challengeLife
}

// Left reports whether an earlier door of dir let browsers in that may come back.
func Left(dir string) bool {
	_, err := os.Lstat(keysFile(dir))
	return !errors.Is(err, os.ErrNotExist)
}
