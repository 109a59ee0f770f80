// Package uploads keeps which resumable uploads a session of a cloister began.
//
// Promise: where a rule is for the objects of one bucket, a session goes on with those
// uploads alone that it began itself, of which it learns from the answers. The id of an
// upload alone says where the data goes: one that was begun elsewhere, and given to the
// program, leads to another bucket.
//
// It does not know rules, and keeps nothing beyond the session: a later session begins its
// uploads again.
//
// Most readers want [Known.Edit].
package uploads

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"sync"

	"cloister/egress/verdict"
)

// most bounds the uploads that a session is known to have begun. A session that has more
// under way begins the oldest again.
const most = 4096

// Known are the uploads that a session began, by the digests of their ids. The zero value
// knows none.
type Known struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]bool
	order [][sha256.Size]byte
}

func (k *Known) begun(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[sha256.Sum256([]byte(id))]
}

func (k *Known) begin(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := sha256.Sum256([]byte(id))
	if k.known[key] {
		return
	}
	if k.known == nil {
		k.known = map[[sha256.Size]byte]bool{}
	}
	if len(k.order) == most {
		delete(k.known, k.order[0])
		k.order = k.order[1:]
	}
	k.known[key], k.order = true, append(k.order, key)
}

// Edit refuses to go on with an upload that the session did not begin, and learns from the
// answer of one that it begins. It is false for every other request, and where matters,
// which is called for these alone, says that no rule depends on it.
func (k *Known) Edit(h *verdict.HTTP, matters func() bool) (verdict.Edit, bool) {
	if h == nil {
		return verdict.Edit{}, false
	}
	ids, starts := h.Uploads(), h.StartsUpload()
	if len(ids) == 0 && !starts || !matters() {
		return verdict.Edit{}, false
	}
	edit := verdict.Edit{Request: func(*verdict.Message) error {
		for _, id := range ids {
			if !k.begun(id) {
				return errForeign
			}
		}
		return nil
	}}
	if starts {
		edit.Response = func(m *verdict.Message) error {
			k.learn(m)
			return nil
		}
	}
	return edit, true
}

// learn takes the id of the upload that an answer begins.
func (k *Known) learn(m *verdict.Message) {
	if m.Status < http.StatusOK || m.Status >= http.StatusMultipleChoices {
		return
	}
	for _, field := range []string{"Location", "X-Goog-Upload-URL"} {
		for _, value := range m.Header.Values(field) {
			if at, err := url.Parse(value); err == nil && at.Query().Get("upload_id") != "" {
				k.begin(at.Query().Get("upload_id"))
			}
		}
	}
}

var errForeign = &verdict.Refused{Status: http.StatusForbidden, Verdict: verdict.Answer{
	Effect: "deny",
	Reason: "a rule about the objects of one bucket does not cover an upload that this session did not begin: " +
		"its upload_id says to which bucket the data goes",
	Hints: []string{"begin the upload in this session: POST with uploadType=resumable"},
}}
