// Package override knows what in an HTTP request names another method or path than
// the one that was sent, which many servers obey.
//
// Promise: names are compared as the most careless server does, and a query is read
// as a server decodes it. It judges nothing, and reads no body.
//
// Most readers want Method and Query.
package override

import (
	"iter"
	"net/url"
	"strings"

	"cloister/internal/fieldname"
)

// Method tells of a field that names another method.
func Method(field string) bool {
	return fieldname.Same(field, "x-http-method-override") || fieldname.Same(field, "x-http-method") || fieldname.Same(field, "x-method-override")
}

// Path tells of a field that names another path.
func Path(field string) bool {
	return fieldname.Same(field, "x-original-url") || fieldname.Same(field, "x-rewrite-url")
}

// Query are the keys of a query that name another method, as they stand there, with
// what they name.
func Query(query string) iter.Seq2[string, string] {
	return func(yield func(key, method string) bool) {
		for part := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
			if key, value, _ := strings.Cut(part, "="); strings.EqualFold(unescaped(key), "_method") && !yield(key, unescaped(value)) {
				return
			}
		}
	}
}

// unescaped is a piece of a query as a server reads it, itself where none does.
func unescaped(text string) string {
	if out, err := url.QueryUnescape(text); err == nil {
		return out
	}
	return text
}
