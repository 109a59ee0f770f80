package reading

import (
	"errors"
	"net/url"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/fieldname"
	"cloister/internal/urlpath"
)

// An Object is something besides its path that a request names, and that the server
// reads or writes for it: the source of a copy, the destination of a move.
type Object struct {
	Says string
	// Reads says that the object is read; else it is written.
	Reads bool
	// Names are the spellings of the one object: a bucket's name stands in the path or
	// in the host.
	Names []Name
	// Bad is why it has no single reading; Names means nothing then.
	Bad error
}

// A Name is a host with a path at it.
type Name struct {
	To   authority.Authority
	Path urlpath.Path
}

// String is the object for a person.
func (o *Object) String() string {
	if o.Bad != nil || len(o.Names) == 0 {
		return "something"
	}
	return o.Names[0].To.Host() + o.Names[0].Path.Wire()
}

// Why an object has no single reading.
var (
	errARN    = errors.New("an object that is named by an ARN")
	errDots   = errors.New("an object whose name has dot segments or empty ones, which some servers resolve")
	errNoName = errors.New("an object without a name")
	errURL    = errors.New("an object at a URL that cannot be read")
	errPlaces = errors.New("a destination that begins with // or without /, or has a fragment: servers read it in two " +
		"ways")
	errAccount = errors.New("an object of another account")
)

func (r *Request) findObjects() {
	if f := r.found; f != nil {
		for _, s := range f.sources {
			r.object(s, true)
		}
		for _, s := range f.targets {
			r.object(s, false)
		}
	}
	if r.BadPath == nil && r.Path.Depth() > 6 && strings.Contains(r.Path.String(), "/b/") {
		r.rewritten()
	}
	for i := range r.objects {
		if r.found != nil && r.found.account {
			r.objects[i].Bad = errAccount
		}
	}
}

// object reads a field that names one.
func (r *Request) object(s said, reads bool) {
	if len(r.objects) >= Most {
		r.crowded = true
		return
	}
	o := Object{Says: s.says, Reads: reads}
	o.Names, o.Bad = r.names(s)
	r.objects = append(r.objects, o)
}

func (r *Request) names(s said) ([]Name, error) {
	value := strings.TrimSpace(s.value)
	switch {
	case value == "":
		return nil, errNoName
	case strings.HasPrefix(strings.ToLower(strings.TrimLeft(value, "/")), "arn:"):
		return nil, errARN
	case isDestination(s.name) && isAmbiguous(value):
		return nil, errPlaces
	case strings.Contains(value, "://"), strings.HasPrefix(value, "//"):
		return nameOfURL(value)
	case isSwift(s.name):
		return r.swift(value)
	case isDestination(s.name):
		path, err := objectPath(value)
		return []Name{{r.To, path}}, err
	case fieldname.Same(s.name, "x-ms-rename-source"), fieldname.Same(s.name, "x-ms-copy-source"):
		path, err := objectPath(value)
		return []Name{{r.To, path}}, err
	case fieldname.Same(s.name, "x-amz-rename-source"): // of the same bucket
		return r.inBucket(value)
	}
	return r.inStore(value)
}

// objectPath reads the path of an object. Stores resolve nothing in it: what would be
// resolved here names another object there.
func objectPath(value string) (urlpath.Path, error) {
	text, _, _ := strings.Cut(value, "?")
	if !strings.HasPrefix(text, "/") {
		text = "/" + text
	}
	p, err := urlpath.Parse(text)
	if err != nil {
		return p, err
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(text[1:], "/"), "/") {
		if name := unescaped(strings.ReplaceAll(part, "+", "%2B")); name == "" || name == "." || name == ".." {
			return p, errDots
		}
	}
	return p, nil
}

// nameOfURL is an object at a URL of its own.
func nameOfURL(value string) ([]Name, error) {
	u, err := url.Parse(value)
	if err != nil || u.User != nil {
		return nil, errURL
	}
	port := map[string]uint16{"https": 443, "": 443, "http": 80}[strings.ToLower(u.Scheme)]
	to, err := authority.ParseHostPort(u.Host, port)
	if err != nil {
		return nil, errURL
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	p, err := objectPath(path)
	return []Name{{to, p}}, err
}

// isDestination tells of WebDAV's fields. nginx takes //a/b for a path, others for the host
// a; golang.org/x/net/webdav leaves a fragment out, others take # for a letter of the path.
func isDestination(name string) bool {
	return fieldname.Same(name, "destination") || fieldname.Same(name, "new-uri")
}

// isAmbiguous reports whether servers read a destination in two ways. Apache takes one without
// a slash for a path beside the folder of the request.
func isAmbiguous(value string) bool {
	relative := !strings.HasPrefix(value, "/") && !strings.Contains(value, "://")
	return relative || strings.HasPrefix(value, "//") || strings.Contains(value, "#")
}

// isSwift tells of OpenStack's fields, whose objects lie below the account in the path.
func isSwift(name string) bool {
	return fieldname.Same(name, "x-copy-from") || fieldname.Same(name, "x-symlink-target") ||
		fieldname.Same(name, "x-object-manifest")
}

func (r *Request) swift(value string) ([]Name, error) {
	p, err := objectPath(value)
	if err != nil {
		return nil, err
	}
	top := r.Path.Segments()
	if len(top) > 2 {
		top = top[:2] // version and account
	}
	return r.joined(r.To, append(top, p.Segments()...))
}

// joined is the name of decoded segments at a host.
func (r *Request) joined(to authority.Authority, segments []string) ([]Name, error) {
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	p, err := urlpath.Parse("/" + strings.Join(segments, "/"))
	return []Name{{to, p}}, err
}

// inBucket is an object of the bucket that the request itself is for.
func (r *Request) inBucket(value string) ([]Name, error) {
	p, err := objectPath(value)
	if err != nil {
		return nil, err
	}
	segments := p.Segments()
	if store := StoreOf(r.To); store.Bucket == "" && r.Path.Depth() > 0 {
		segments = append([]string{r.Path.Segments()[0]}, segments...)
	}
	return r.joined(r.To, segments)
}

// inStore is an object that is named BUCKET/KEY, in each spelling that the store has
// for it.
func (r *Request) inStore(value string) ([]Name, error) {
	p, err := objectPath(value)
	if err != nil {
		return nil, err
	}
	return storedAs(r.To, p), nil
}

// storedAs are the spellings of the object of a path that begins with its bucket.
func storedAs(to authority.Authority, p urlpath.Path) []Name {
	store := StoreOf(to)
	names := []Name{{store.Endpoint, p}}
	segments := p.Segments()
	if len(segments) == 0 || store.Kind == Unknown {
		return names
	}
	bucket, key := segments[0], segments[1:]
	encoded := make([]string, len(key))
	for i := range key {
		encoded[i] = url.PathEscape(key[i])
	}
	if host, err := authority.Parse(bucket+"."+store.Endpoint.Host(), to.Port()); err == nil &&
		strings.ToLower(bucket) == bucket {
		if at, err := urlpath.Parse("/" + strings.Join(encoded, "/")); err == nil {
			names = append(names, Name{host, at})
		}
	}
	if store.Kind == GCS {
		if at, err := urlpath.Parse("/storage/v1/b/" + url.PathEscape(bucket) + "/o/" +
			strings.Join(encoded, "%2F")); err == nil {
			names = append(names, Name{store.Endpoint, at})
		}
	}
	return names
}

// rewritten finds what a path of Google's JSON API writes besides:
// /storage/v1/b/BUCKET/o/OBJECT/rewriteTo/b/BUCKET/o/OBJECT.
func (r *Request) rewritten() {
	segments := r.Path.Segments()
	for i, part := range segments {
		if i < 4 || i+2 >= len(segments) || segments[i+1] != "b" ||
			!strings.EqualFold(part, "rewriteTo") && !strings.EqualFold(part, "copyTo") {
			continue
		}
		o := Object{Says: "the path behind " + part}
		if i+4 < len(segments) && segments[i+3] == "o" {
			encoded := append([]string{segments[i+2]}, segments[i+4:]...)
			for i := range encoded {
				encoded[i] = url.PathEscape(encoded[i])
			}
			p, err := urlpath.Parse("/" + strings.Join(encoded, "/"))
			o.Names, o.Bad = storedAs(r.To, p), err
			if StoreOf(r.To).Kind != GCS { // a double of the service under another name
				o.Names, o.Bad = r.joined(r.To, append(append([]string{}, segments[:bucketAt(segments)]...),
					append([]string{segments[i+2], "o"}, segments[i+4:]...)...))
			}
		} else {
			o.Bad = errNoName
		}
		r.objects = append(r.objects, o)
	}
}

// bucketAt is where the first bucket of a path of the JSON API stands.
func bucketAt(segments []string) int {
	for i, part := range segments {
		if part == "b" {
			return i + 1
		}
	}
	return 0
}
