package reading

import (
	"strings"

	"cloister/internal/fieldname"
)

// A kind is what a field says of the request that carries it.
type kind uint8

const (
	plain     kind = iota
	method         // another method
	path           // another path
	prefix         // what stands before the path
	host           // another host
	forwarded      // RFC 7239
	source         // an object that is read
	target         // an object that is written
	account        // whose an object is
	batch          // that its body holds other requests, or its query other fields
)

// fields are those whose names say it whole, by their lengths: nearly every other name
// costs one look.
//
// Whose they are: X-HTTP-Method-Override and its kin of OData, Rails, Laravel, Express;
// X-Original-URL of IIS and Symfony (CVE-2018-14773); X-Original-URI of nginx's
// auth_request; X-Forwarded-Uri and X-Forwarded-Method of Traefik and Caddy;
// X-Forwarded-Prefix of Traefik and Spring; SCRIPT_NAME and PATH_INFO of gunicorn;
// Destination of WebDAV (RFC 4918 10.3), and New-Uri, which Apache's mod_dav takes for one
// where there is no Destination; X-Copy-From and X-Symlink-Target of Swift.
var fields = [...][]entry{
	6:  {{"x-host", host}},
	7:  {{"new-uri", target}},
	9:  {{"path-info", path}, {"forwarded", forwarded}},
	11: {{"x-path-info", path}, {"script-name", prefix}, {"destination", target}, {"x-copy-from", source}},
	12: {{"content-type", batch}},
	13: {{"x-http-method", method}, {"x-rewrite-url", path}, {"x-rewrite-uri", path}, {"x-script-name", prefix}},
	14: {{"x-original-url", path}, {"x-original-uri", path}, {"x-override-url", path}, {"x-ingress-path", prefix}},
	15: {{"x-forwarded-uri", path}, {"x-forwarded-url", path}, {"x-original-host", host}},
	16: {{"x-forwarded-path", path}, {"x-forwarded-host", host}, {"x-symlink-target", source}},
	17: {{"x-method-override", method}, {"x-original-method", method}, {"x-object-manifest", source}},
	18: {{"x-forwarded-method", method}, {"x-forwarded-prefix", prefix}, {"x-forwarded-server", host}},
	19: {{"destination-account", account}, {"x-copy-from-account", account}},
	20: {{"x-http-verb-override", method}, {"x-http-host-override", host}},
	21: {{"x-envoy-original-path", path}},
	22: {{"x-http-method-override", method}},
	23: {{"x-forwarded-script-name", prefix}},
	24: {{"x-symlink-target-account", account}},
}

type entry struct {
	name string
	kind kind
}

// kindOf is what a field says, by its name.
func kindOf(name string) kind {
	if len(name) >= len("x-copy-source") && (name[0]|0x20 == 'x') && isSource(name) {
		return source
	}
	if len(name) >= len(fields) {
		return plain
	}
	for _, e := range fields[len(name)] {
		if fieldname.Same(name, e.name) {
			return e.kind
		}
	}
	return plain
}

// isSource tells of x-amz-copy-source and its like of every store, and not of the
// conditions that begin so (x-amz-copy-source-if-match).
func isSource(name string) bool {
	for _, end := range []string{"-copy-source", "-rename-source"} {
		if len(name) > len(end) && fieldname.Same(name[len(name)-len(end):], end) {
			return true
		}
	}
	return false
}

// isMethodKey tells of a key, of a query or a form, that names another method. PHP
// drops spaces before a key and takes a dot for an underscore.
func isMethodKey(key string) bool {
	if len(key) < len("_method") {
		return false
	}
	key, _, _ = strings.Cut(strings.TrimLeft(key, " "), "\x00")
	key, _, _ = strings.Cut(key, "[")
	switch len(key) {
	case len("_method"):
		return (key[0] == '_' || key[0] == '.') && strings.EqualFold(key[1:], "method")
	case len("$httpmethod"):
		return strings.EqualFold(key[1:], "httpmethod") && strings.IndexByte("$_", key[0]) >= 0
	}
	return false
}
