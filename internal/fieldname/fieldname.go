// Package fieldname compares the names of HTTP fields as the most careless
// server does, so that no second spelling gets around a rule about the first.
//
// It promises that two names are the same where some server takes them for one:
// case is nothing (RFC 9110 5.1), and CGI, WSGI and their like read an underscore
// as a hyphen. It does not say which names are good ones. Most readers want Same.
package fieldname

// Same reports whether a server may take a for b.
func Same(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if fold(a[i]) != fold(b[i]) {
			return false
		}
	}
	return true
}

func fold(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
