package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/source"
)

// Secret binds one secret of the vault to a place of requests.
type Secret struct {
	// The name of a secret in the vault.
	Name string `json:"name"`
	// The hosts that it may go to, over TLS: names, or *.NAME.
	Hosts []string `json:"hosts"`
	// Ports, 443 unless said.
	Ports []uint16 `json:"ports"`
	// Methods of the requests that it may go into.
	Methods []string `json:"methods"`
	// Paths of the requests that it may go into: /acme/tool.git/**.
	Paths []string `json:"paths"`
	// The header that it goes into, Authorization unless said.
	Header string `json:"header"`
	// How the header is written, {} being the secret: Bearer {}.
	Format string `json:"format"`
	// The key of the query that it goes into, instead of a header.
	Query string `json:"query"`
	// true: it goes into the body, instead of a header.
	Body bool `json:"body"`
	// aws: the secret is an access key of Amazon's services, and requests that are signed with its
	// placeholder are signed anew.
	//
	// Of an access key, instead of a place: what it signs.
	Sign Sign `json:"sign"`
	// The services that requests are signed for: s3, dynamodb, bedrock.
	Services []string `json:"services"`
	// The regions that requests are signed for, any unless said.
	Regions []string `json:"regions"`
	// allow, ask a person first, or deny.
	Use Use `json:"use"`
	// The variables inside that hold the placeholder, the name of the secret unless said.
	Env   []string        `json:"env"`
	Place source.Position `json:"-"`
}

// Use says what becomes of a use of a secret.
type Use string

// The words of Use; an empty one is allow.
const (
	UseAllow Use = "allow"
	UseAsk   Use = "ask"
	UseDeny  Use = "deny"
)

func (Use) words() []string { return []string{string(UseAllow), string(UseAsk), string(UseDeny)} }

// Sign says how a secret signs.
type Sign string

// SignAWS is the one word of Sign; an empty one signs nothing.
const SignAWS Sign = "aws"

func (Sign) words() []string { return []string{string(SignAWS)} }

// Variables are the names that the placeholder has inside: of an access key its id,
// its secret and its session's token, in this order.
func (s Secret) Variables() []string {
	if s.Env == nil && s.Sign == SignAWS {
		return []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
	}
	if s.Env == nil && isVariable(s.Name) {
		return []string{s.Name}
	}
	return s.Env
}

// String writes the binding on one line.
func (s Secret) String() string {
	words := []string{s.Name, "hosts", strings.Join(s.Hosts, ",")}
	if len(s.Ports) > 0 {
		words = append(words, "ports", strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Ports), " ", ","), "[]"))
	}
	for _, list := range []struct {
		key   string
		items []string
	}{{"methods", s.Methods}, {"paths", s.Paths}, {"services", s.Services}, {"regions", s.Regions}, {"env", s.Env}} {
		if len(list.items) > 0 {
			words = append(words, list.key, strings.Join(list.items, ","))
		}
	}
	for _, one := range []struct{ key, value string }{{"header", s.Header}, {"format", s.Format}, {"query", s.Query},
		{"sign", string(s.Sign)}, {"use", string(s.Use)}} {
		if one.value != "" {
			words = append(words, one.key, one.value)
		}
	}
	if s.Body {
		words = append(words, "body")
	}
	return strings.Join(words, " ")
}

func isVariable(name string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	return name != "" && strings.Trim(name, letters+"0123456789") == "" && strings.IndexAny(name, letters) == 0
}

// built are the variables that every cloister has by itself.
var built = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "CLOISTER", "CLOISTER_NAME"}

// secrets holds the bindings to what a request can be.
func (r *reader) secrets(list []Secret) {
	owner := map[string]string{}
	for i := range list {
		s, key := &list[i], at("secrets", i)
		if s.Place.Line == 0 {
			continue // said already
		}
		switch {
		case s.Name == "":
			r.problem(s.Place, "the name that it has in: cloister secret list", "%s: which secret? name is missing", key)
		case strings.ContainsAny(s.Name, " =/\t"):
			r.problem(r.places[key+".name"], "", "%s: %q is not the name of a secret", key, s.Name)
		}
		if len(s.Hosts) == 0 {
			r.problem(s.Place, "hosts: [api.example.com]", "%s: no host is named: a secret goes nowhere by itself", key)
		}
		for j, host := range s.Hosts {
			if _, err := authority.ParsePattern(host); host != "" && err != nil {
				hint := ""
				if u, perr := url.Parse(host); perr == nil && u.Host != "" {
					hint = "write the host alone: " + u.Hostname()
				}
				r.problem(r.places[at(key+".hosts", j)], hint, "%s: %v", key, err)
			}
		}
		for j, port := range s.Ports {
			if port == 0 {
				r.problem(r.places[at(key+".ports", j)], "", "%s: port 0 is no port", key)
			}
		}
		fits := &Rule{Methods: s.Methods, Paths: s.Paths}
		if s.Query != "" {
			fits.Query = map[string]string{s.Query: "*"}
		}
		r.requests(fits, key)
		r.secretPlace(s, key)
		for j, name := range s.Variables() {
			place := r.places[at(key+".env", j)]
			switch {
			case !isVariable(name):
				r.problem(place, "", "%s: %q is no variable's name", key, name)
			case slices.Contains(built, name):
				r.problem(place, "", "%s: %s is a cloister's own variable", key, name)
			case owner[name] != "" && owner[name] != s.Name:
				r.problem(place, "give one of them another env", "%s: the variable %s is to hold both %s and %s", key, name,
					owner[name], s.Name)
			}
			owner[name] = s.Name
		}
	}
}

// secretPlace holds a binding to one place.
func (r *reader) secretPlace(s *Secret, key string) {
	places := 0
	for _, set := range []bool{s.Header != "", s.Query != "", s.Body, s.Sign != ""} {
		if set {
			places++
		}
	}
	switch {
	case places > 1:
		r.problem(s.Place, "write a second entry for another place", "%s: one of header, query, body and sign", key)
	case s.Sign != "" && len(s.Services) == 0:
		r.problem(s.Place, "services: [s3]", "%s: sign names no service: a key signs for nobody by itself", key)
	case s.Sign == "" && len(s.Services)+len(s.Regions) > 0:
		r.problem(s.Place, "sign: aws", "%s: services and regions are of an access key that signs", key)
	case s.Sign != "" && s.Env != nil && len(s.Env) != 2 && len(s.Env) != 3:
		r.problem(r.places[key+".env"], "env: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN]",
			"%s: an access key's variables are those of its id, its secret and its session's token", key)
	case s.Format != "" && (s.Query != "" || s.Body || s.Sign != ""):
		r.problem(r.places[key+".format"], "", "%s: format says how a header is written", key)
	case s.Format != "" && strings.Count(s.Format, "{}") != 1:
		r.problem(r.places[key+".format"], `such as "Bearer {}"`, "%s: format has {} once, where the secret stands", key)
	}
}

// SameVariable is the error of a secret that wants a variable which another of the
// list has.
func SameVariable(list []Secret, s Secret) error {
	for _, o := range list {
		for _, name := range s.Variables() {
			if o.Name != s.Name && slices.Contains(o.Variables(), name) {
				return &source.Problem{
					Position: s.Place, Hint: "give one of them another env",
					Msg: fmt.Sprintf("secrets: the variable %s is to hold both %s (%s:%d) and %s", name, o.Name, o.Place.File,
						o.Place.Line, s.Name),
				}
			}
		}
	}
	return nil
}
