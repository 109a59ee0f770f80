package placeholders

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cloister/internal/durable"
	"cloister/secret"
	"cloister/secret/inject"
)

// Bounds of what a Ledger remembers: of one secret in a project, and in all.
const (
	mostShapes = 8
	mostIssued = 256
)

// A Ledger makes the same placeholder for the same secret of the same project each time,
// and knows whose those are that it made. There is nothing in it to hide but its key, by
// which they could be made elsewhere.
type Ledger struct {
	file string

	mu   sync.Mutex
	kept kept
}

type kept struct {
	Version int      `json:"v"`
	Key     []byte   `json:"key"`
	Issued  []issued `json:"issued"` // the oldest first
}

type issued struct {
	Project string `json:"project"`
	Name    string `json:"name"`
	Part    string `json:"part,omitempty"`
	Text    string `json:"text"`
	Core    string `json:"core"`
}

// OpenLedger reads the ledger in a private folder, or begins one.
func OpenLedger(dir string) (*Ledger, error) {
	l := &Ledger{file: filepath.Join(dir, "placeholders.json")}
	text, err := os.ReadFile(l.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.kept = kept{Version: 1, Key: make([]byte, sha256.Size)}
		_, _ = rand.Read(l.kept.Key) // it never fails (crypto/rand)
		return l, nil
	case err != nil:
		return nil, fmt.Errorf("read the placeholders: %w", err)
	}
	if json.Unmarshal(text, &l.kept) != nil || l.kept.Version != 1 || len(l.kept.Key) != sha256.Size {
		return nil, fmt.Errorf("read the placeholders: %s is none of this cloister's; without it new ones are made", l.file)
	}
	return l, nil
}

// make is the placeholder of a secret in a project, and those that it had before.
func (l *Ledger) make(project, name, part string, v secret.Value,
	lasting bool) (now secret.Placeholder, earlier []secret.Placeholder, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mac := hmac.New(sha256.New, l.kept.Key)
	_, _ = mac.Write([]byte(strings.Join([]string{"placeholder", project, name, part}, "\x00"))) // it never fails
	now = secret.StablePlaceholder(v, [32]byte(mac.Sum(nil)), lasting)
	own := issued{Project: project, Name: name, Part: part, Text: now.Text, Core: now.Core}
	for _, i := range l.kept.Issued {
		if i.Project == project && i.Name == name && i.Part == part && i.Text != now.Text {
			earlier = append(earlier, secret.Placeholder{Text: i.Text, Core: i.Core})
		}
	}
	earlier = earlier[max(0, len(earlier)-mostShapes):]
	if slices.Contains(l.kept.Issued, own) {
		return now, earlier, nil
	}
	next := l.kept
	next.Issued = append(slices.Clone(l.kept.Issued), own)
	next.Issued = next.Issued[max(0, len(next.Issued)-mostIssued):]
	text, err := json.MarshalIndent(next, "", "  ")
	if err == nil {
		err = durable.WriteFile(l.file, append(text, '\n'), 0o600)
	}
	if err != nil {
		return now, nil, fmt.Errorf("keep the placeholder of the secret %s: %w", name, err)
	}
	l.kept = next
	return now, earlier, nil
}

// Foreign are the placeholders that a session of a project with these secrets has not.
func (l *Ledger) Foreign(project string, held []inject.Held) []inject.Foreign {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []inject.Foreign
	for _, i := range l.kept.Issued {
		has := func(h inject.Held) bool {
			return h.Name == i.Name && i.Project == project || h.Placeholder.Core == i.Core
		}
		if slices.ContainsFunc(held, has) || slices.ContainsFunc(out,
			func(f inject.Foreign) bool { return f.Core == i.Core }) {
			continue
		}
		f := inject.Foreign{Name: i.Name, Core: i.Core}
		if i.Project != project {
			f.Project = i.Project
		}
		out = append(out, f)
	}
	return out
}

// earlier are all placeholders of a secret in a project but one.
func (l *Ledger) earlier(project string, h inject.Held) (out []secret.Placeholder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.kept.Issued {
		if i.Project == project && i.Name == h.Name && i.Part == h.Part && i.Text != h.Placeholder.Text {
			out = append(out, secret.Placeholder{Text: i.Text, Core: i.Core})
		}
	}
	return out[max(0, len(out)-mostShapes):]
}
