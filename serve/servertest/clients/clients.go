// Package clients has clients make and end sandboxes of servers that are killed at random moments.
//
// The promise: what a client was answered is known afterwards, and nothing else is: what was asked for
// without an answer may be or not.
//
// It starts no server and ends none. Tests alone use it.
//
// Most readers want [New].
package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// within bounds one request.
const within = time.Minute

var door = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// Call makes one request; status is 0 where none was answered.
func Call(ctx context.Context, url, key, method, path, body string) (status int, answer string) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("X-API-Key", key)
	resp, err := door.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// List gives the sandboxes that a server lists.
func List(ctx context.Context, url, key string) (out []string, err error) {
	status, answer := Call(ctx, url, key, "GET", "/sandboxes", "")
	var list []struct{ SandboxID string }
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("list sandboxes: %d %s", status, answer)
	}
	for _, one := range list {
		out = append(out, one.SandboxID)
	}
	slices.Sort(out)
	return out, nil
}

// Book is what clients know by what they were answered. It is read when none acts any more.
type Book struct {
	key       string
	few, most int

	mu              sync.Mutex
	Alive, Dead     map[string]bool
	Made, Uncertain int
}

// New is the book of the clients with a key, who leave so few sandboxes, and have so many at the most.
func New(key string, few, most int) *Book {
	return &Book{key: key, few: few, most: most, Alive: map[string]bool{}, Dead: map[string]bool{}}
}

// Act makes a sandbox by a server, or ends one that a client was given.
func (b *Book) Act(ctx context.Context, url string) {
	id := b.toEnd()
	method, path, body := "POST", "/v2/sandboxes", `{"templateID":"base","timeout":3600}`
	if id != "" {
		method, path, body = "DELETE", "/sandboxes/"+id, ""
	}
	status, answer := Call(ctx, url, b.key, method, path, body)
	b.note(id, status, answer)
	if status == 0 {
		<-time.After(20 * time.Millisecond) // no server
	}
}

// toEnd takes one that is to be ended out of the book; empty where one is to be made.
func (b *Book) toEnd() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.Alive); n > b.most || n > b.few && rand.IntN(2) == 0 {
		for id := range b.Alive {
			delete(b.Alive, id) // from here on its end is uncertain, until it is answered
			return id
		}
	}
	return ""
}

func (b *Book) note(id string, status int, answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var made struct{ SandboxID string }
	switch {
	case id != "" && status == http.StatusNoContent:
		b.Dead[id] = true
	case id == "" && status == http.StatusCreated && json.Unmarshal([]byte(answer), &made) == nil:
		b.Alive[made.SandboxID] = true
		b.Made++
	default:
		b.Uncertain++
	}
}

// Count is how many sandboxes clients were given.
func (b *Book) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Made
}

// Wrong says what of a list is not as clients were answered.
func (b *Book) Wrong(listed []string) (out []string) {
	for id := range b.Alive {
		if !slices.Contains(listed, id) {
			out = append(out, id+" was given to a client, and is lost")
		}
	}
	for id := range b.Dead {
		if slices.Contains(listed, id) {
			out = append(out, id+" was ended, and is there")
		}
	}
	return out
}
