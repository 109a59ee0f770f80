package secret

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/urlpath"
)

// A Binding says where one secret may go: over TLS to these hosts, in requests
// that fit, in one place of them.
type Binding struct {
	Name    string
	Hosts   []authority.Pattern
	Ports   []uint16 // 443 where nothing is said
	Methods []string // any where nothing is said
	Paths   []urlpath.Glob
	// Exactly one of these is the place. A header's value is written as Format
	// says, {} being the secret; an empty Format leaves it as the program wrote it.
	Header, Format string
	Query          string // a key of the query
	Body           bool   // anywhere in the body
	// Or the secret is an access key of this kind, and goes nowhere: requests that its
	// placeholder has signed for one of Services, in one of Regions, any where nothing
	// is said, are signed anew.
	Sign              Kind
	Services, Regions []string
	Use               string // what becomes of a use, as it was written
	// Origin is where it was written, for a person.
	Origin string

	place, to string // in words: each use is recorded with them
}

// Words are a Binding as a person wrote it.
type Words struct {
	Name           string
	Hosts          []string
	Ports          []uint16
	Methods, Paths []string
	Header, Format string
	Query          string
	Body           bool
	Sign           string
	Services       []string
	Regions        []string
	Use, Origin    string
}

// Bind reads a Binding.
func Bind(w Words) (*Binding, error) {
	b := &Binding{
		Name: w.Name, Ports: w.Ports, Methods: w.Methods, Header: w.Header, Format: w.Format, Query: w.Query, Body: w.Body,
		Use: w.Use, Origin: w.Origin,
		Sign: Kind(w.Sign), Services: w.Services, Regions: w.Regions,
	}
	if len(w.Hosts) == 0 {
		return nil, errors.New("no host is named: a secret goes nowhere by itself")
	}
	for _, host := range w.Hosts {
		p, err := authority.ParsePattern(host)
		if err != nil {
			return nil, err // it names the host
		}
		b.Hosts = append(b.Hosts, p)
	}
	if len(b.Ports) == 0 {
		b.Ports = []uint16{443}
	}
	for _, path := range w.Paths {
		g, err := urlpath.ParseGlob(path)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
		b.Paths = append(b.Paths, g)
	}
	places := 0
	for _, set := range []bool{b.Header != "", b.Query != "", b.Body, b.Sign != ""} {
		if set {
			places++
		}
	}
	switch {
	case places > 1:
		return nil, errors.New("one place each: header, query, body or sign; write a second entry for another")
	case b.Sign != "" && b.Sign != KindAWS:
		return nil, fmt.Errorf("sign: %q is not known here, %s is", b.Sign, KindAWS)
	case b.Sign != "" && len(b.Services) == 0:
		return nil, errors.New("sign: no service is named: services: [s3]")
	case b.Sign == "" && len(b.Services)+len(b.Regions) > 0:
		return nil, errors.New("services and regions are of an access key: sign: aws")
	case places == 0:
		b.Header = "Authorization"
	}
	switch {
	case b.Format != "" && b.Header == "":
		return nil, errors.New("format says how a header is written, and there is none")
	case b.Format != "" && strings.Count(b.Format, "{}") != 1:
		return nil, errors.New(`format has {} once, such as "Bearer {}"`)
	case strings.ContainsFunc(b.Format, func(r rune) bool { return r < ' ' || r > '~' }):
		return nil, errors.New("format has a character that a header cannot hold")
	case b.Header != "" && !isToken(b.Header):
		return nil, fmt.Errorf("%q is no name of a header", b.Header)
	case slices.Contains([]string{"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "expect",
		"trailer"}, strings.ToLower(b.Header)):
		return nil, fmt.Errorf("the header %s is the gate's own", b.Header)
	}
	b.place, b.to = b.placeWords(), b.toWords()
	return b, nil
}

func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// Covers reports whether the binding names a destination.
func (b *Binding) Covers(a authority.Authority) bool {
	return slices.Contains(b.Ports, a.Port()) && b.CoversHost(a)
}

// CoversHost reports whether it names the host, at any port.
func (b *Binding) CoversHost(a authority.Authority) bool {
	return slices.ContainsFunc(b.Hosts, func(p authority.Pattern) bool { return p.Match(a.Host()) })
}

// Place is the place in words.
func (b *Binding) Place() string { return b.place }

func (b *Binding) placeWords() string {
	switch {
	case b.Query != "":
		return "query " + b.Query
	case b.Body:
		return "body"
	case b.Sign != "":
		return "signature in the header authorization"
	}
	return "header " + strings.ToLower(b.Header)
}

// To is where it may go in words: POST api.example.com:8443/v1/**.
func (b *Binding) To() string { return b.to }

func (b *Binding) toWords() string {
	hosts := make([]string, len(b.Hosts))
	for i, p := range b.Hosts {
		hosts[i] = p.String()
	}
	words := strings.Join(hosts, ", ")
	if !slices.Equal(b.Ports, []uint16{443}) {
		ports := make([]string, len(b.Ports))
		for i, p := range b.Ports {
			ports[i] = strconv.Itoa(int(p))
		}
		words += " port " + strings.Join(ports, ",")
	}
	if len(b.Methods) > 0 {
		words = strings.Join(b.Methods, ",") + " " + words
	}
	for _, p := range b.Paths {
		words += " " + p.String()
	}
	if b.Sign != "" {
		words += " for " + strings.Join(b.Services, ", ")
	}
	if len(b.Regions) > 0 {
		words += " in " + strings.Join(b.Regions, ", ")
	}
	return words
}

// A Request is what of a request says where it goes.
type Request struct {
	Authority authority.Authority
	Secure    bool
	Method    string
	Path      urlpath.Path
	BadPath   error // why the path has no one spelling
	// Of one that is signed: the service that it is for.
	Service, Region string
}

// Refuses is why the secret may not go into a request of that destination; empty
// where it may. word is the key to widen and with what.
func (b *Binding) Refuses(r Request) (why, key, word string) {
	switch {
	case !b.CoversHost(r.Authority):
		return "it is bound to " + b.To(), "hosts", r.Authority.Host()
	case !r.Secure:
		return "it is bound to " + b.To() + ", and goes over TLS only", "", ""
	case !b.Covers(r.Authority):
		port := strconv.Itoa(int(r.Authority.Port()))
		return "it is bound to " + b.To() + ", and this is port " + port, "ports", port
	case len(b.Methods) > 0 && !slices.Contains(b.Methods, r.Method):
		return "it is bound to " + b.To() + ", and this is a " + r.Method, "methods", r.Method
	case len(b.Paths) > 0 && r.BadPath != nil:
		return "it is bound to " + b.To() + ", and this path has no one spelling: " + r.BadPath.Error(), "", ""
	case len(b.Paths) > 0 && !slices.ContainsFunc(b.Paths, func(g urlpath.Glob) bool { return g.Match(r.Path) }):
		return "it is bound to " + b.To(), "paths", around(r.Path.Wire())
	case r.Service != "" && !slices.Contains(b.Services, r.Service):
		return "it is bound to " + b.To() + ", and this is signed for " + r.Service, "services", r.Service
	case r.Region != "" && len(b.Regions) > 0 && !slices.Contains(b.Regions, r.Region):
		return "it is bound to " + b.To() + ", and this is signed for " + r.Region, "regions", r.Region
	}
	return "", "", ""
}

// WhyNot is why a placeholder may not be in a request as it is, by the binding of
// its secret that comes nearest, with the words that would allow it where there
// are such.
func WhyNot(list []*Binding, r Request) (why, origin string, hints []string) {
	for _, b := range list {
		refused, key, word := b.Refuses(r)
		switch {
		case refused == "" && b.Sign != "":
			return "it signs requests in the header Authorization, and stands nowhere else: what is signed in the query " +
				"(presigned), or by chunks, is not signed anew", b.Origin, nil
		case refused == "":
			return "it goes into the " + b.Place() + " only, as one whole value", b.Origin, nil
		case why == "" || b.Covers(r.Authority):
			why, origin, hints = refused, b.Origin, nil
			if key != "" {
				hints = []string{fmt.Sprintf("if it should go there, in config.yaml: secrets: [{name: %s, %s: [%s, ...], ...}], "+
					"then cloister guardian reload", b.Name, key, quoted(word))}
			}
		}
	}
	if why == "" {
		why = "it is bound to nothing any more"
	}
	return why, origin, hints
}

func quoted(word string) string {
	if strings.ContainsAny(word, "*%/{}[],: ") {
		return `"` + word + `"`
	}
	return word
}

// around is the glob that a person would write for a path: of git's, all of the
// repository.
func around(path string) string {
	for _, service := range []string{"/info/refs", "/git-receive-pack", "/git-upload-pack"} {
		if repository, ok := strings.CutSuffix(path, service); ok && repository != "" {
			return repository + "/**"
		}
	}
	return path
}
