// Package templates keeps what a tenant's sandboxes can be made of, by name.
//
// A template is an image by its digest, with statements that forbid and a level of
// isolation, which the operator alone says. The promise: a template names bytes, never a
// name that can come to mean others; a request changes none that the operator made.
//
// It fetches no image and starts nothing.
//
// Most readers want [Store.Find].
package templates

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/internal/durable"
)

// Base is the template that there always is: the machine's own system.
const Base = "base"

// Made is what a sandbox is made of; the zero value is the machine's own system.
type Made struct {
	Image     string `json:"image,omitempty"`     // sha256:HEX, of the image's configuration
	Isolation string `json:"isolation,omitempty"` // empty for the tenant's own
	Forbid    string `json:"forbid,omitempty"`    // Cedar
}

// Template is one of a tenant's.
type Template struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Build   string    `json:"build"` // a UUID, anew with each image
	Made    Made      `json:"made"`  // without an image while a request has yet to name it
	Own     bool      `json:"own,omitempty"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Most bounds the templates of one tenant.
const Most = 100

// Errors of names.
var (
	ErrNone  = errors.New("template not found")
	ErrOwn   = errors.New("the operator made this template: cloister serve template changes it")
	ErrTaken = errors.New("this is the ID of another template: take another name")
	ErrFull  = fmt.Errorf("the tenant has %d templates, which is the limit", Most)
	ErrBuild = errors.New("no build of that ID waits for its image")
)

// CheckName refuses what cannot be a template's name.
func CheckName(name string) error {
	if !names().MatchString(name) || name == Base || strings.HasPrefix(name, "snap") {
		return fmt.Errorf("template name %.64q: want at most 64 of a-z, 0-9, hyphens, dots and underscores, a letter or "+
			"digit "+
			"first; not base, and none that begins as a snapshot's ID", name)
	}
	return nil
}

var names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`) })

// Store has the templates of one tenant.
type Store struct{ dir string }

// Open gives the templates that lie in a tenant's folder.
func Open(dir string) *Store { return &Store{dir} }

func (s *Store) file() string { return filepath.Join(s.dir, "templates.json") }

// List gives them, by their names.
func (s *Store) List() ([]Template, error) {
	text, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Template
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("read templates: %w", err)
	}
	slices.SortFunc(out, func(a, b Template) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Find gives the template of a name or an ID, or ErrNone.
func (s *Store) Find(name string) (Template, error) {
	list, err := s.List()
	if err != nil {
		return Template{}, err
	}
	for _, t := range list {
		if t.ID == name || t.Name == name {
			return t, nil
		}
	}
	return Template{}, ErrNone
}

// Put makes a template, or gives the one of that name another image. A request (own is
// false) changes none of the operator's. first is called before anything changes.
func (s *Store) Put(name string, made Made, own bool, first func(Template) error) (out Template, err error) {
	if err := CheckName(name); err != nil {
		return out, err
	}
	now := time.Now().UTC()
	return out, s.change(func(list []Template) ([]Template, error) {
		i := slices.IndexFunc(list, func(t Template) bool { return t.Name == name })
		switch {
		case slices.ContainsFunc(list, func(t Template) bool { return t.ID == name }):
			return nil, ErrTaken // whoever names the other by its ID would be given this one
		case i < 0 && len(list) >= Most:
			return nil, ErrFull
		case i >= 0 && list[i].Own && !own:
			return nil, ErrOwn
		case i < 0:
			i = len(list)
			list = append(list, Template{ID: "t" + strings.ToLower(rand.Text()[:19]), Name: name, Created: now})
		}
		if made.Image == "" { // the one that it has rules on, until a build names another
			made = list[i].Made
		}
		list[i].Made, list[i].Own, list[i].Updated, list[i].Build = made, own, now, uuid()
		out = list[i]
		return list, first(out)
	})
}

// Finish gives a template the image of a build that [Store.Put] began without one.
func (s *Store) Finish(id, build, image string, first func(Template) error) error {
	return s.change(func(list []Template) ([]Template, error) {
		i := slices.IndexFunc(list, func(t Template) bool { return t.ID == id })
		switch {
		case i < 0:
			return nil, ErrNone
		case list[i].Own:
			return nil, ErrOwn
		case list[i].Build != build:
			return nil, ErrBuild
		}
		list[i].Made.Image, list[i].Updated = image, time.Now().UTC()
		return list, first(list[i])
	})
}

// Remove removes a template by its name or its ID. first is called before it is gone.
func (s *Store) Remove(name string, own bool, first func(Template) error) error {
	return s.change(func(list []Template) ([]Template, error) {
		i := slices.IndexFunc(list, func(t Template) bool { return t.ID == name || t.Name == name })
		switch {
		case i < 0:
			return nil, ErrNone
		case list[i].Own && !own:
			return nil, ErrOwn
		}
		if err := first(list[i]); err != nil {
			return nil, err
		}
		return slices.Delete(list, i, i+1), nil
	})
}

// change replaces the list, one writer at a time.
func (s *Store) change(f func([]Template) ([]Template, error)) error {
	return durable.Edit(s.file(), filepath.Join(s.dir, "templates.lock"), s.List, f)
}

// uuid is a random UUID, by which the API names builds (RFC 9562, version 4).
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it cannot fail (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
