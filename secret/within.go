package secret

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// InField finds the placeholder in the header that the binding names, and gives
// what writes the real value there; ok is false where the field is not written so
// that nothing but the placeholder could be meant.
func (b *Binding) InField(name, value, placeholder string) (write func(real string) string, ok bool) {
	if b.Header == "" || !strings.EqualFold(name, b.Header) {
		return nil, false
	}
	as := func(shape string) func(string) string {
		if b.Format != "" {
			shape = b.Format
		}
		return func(real string) string { return strings.Replace(shape, "{}", real, 1) }
	}
	if value == placeholder {
		return as("{}"), true
	}
	if head, tail, cut := strings.Cut(b.Format, "{}"); cut && len(head+tail) > 0 && value == head+placeholder+tail {
		return as(""), true
	}
	if !strings.EqualFold(name, "Authorization") && !strings.EqualFold(name, "Proxy-Authorization") {
		return nil, false
	}
	scheme, rest, cut := strings.Cut(value, " ")
	if !cut || !isToken(scheme) {
		return nil, false
	}
	rest = strings.TrimLeft(rest, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return as(scheme + " {}"), rest == placeholder
	}
	text, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return nil, false
	}
	user, password, cut := strings.Cut(string(text), ":")
	basic := func(shape string) func(string) string {
		return func(real string) string {
			return scheme + " " + base64.StdEncoding.EncodeToString([]byte(strings.Replace(shape, "{}", real, 1)))
		}
	}
	switch {
	case !cut || strings.Contains(user+password, "{}"):
		return nil, false
	case password == placeholder && user != placeholder:
		return basic(user + ":{}"), true
	case user == placeholder && password != placeholder:
		return basic("{}:" + password), true
	}
	return nil, false
}

// InQuery finds the placeholder under the key that the binding names.
func (b *Binding) InQuery(pair, placeholder string) (write func(real string) string, ok bool) {
	key, value, cut := strings.Cut(pair, "=")
	if b.Query == "" || !cut {
		return nil, false
	}
	name, err1 := url.QueryUnescape(key)
	text, err2 := url.QueryUnescape(value)
	if err1 != nil || err2 != nil || name != b.Query || text != placeholder {
		return nil, false
	}
	return func(real string) string { return key + "=" + url.QueryEscape(real) }, true
}
