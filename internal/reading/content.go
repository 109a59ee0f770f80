package reading

import (
	"bytes"
	"mime"
	"slices"
	"strings"
)

// Content is what a request says of its body.
type Content struct {
	Type    string // in small letters, without parameters; empty where nothing is said
	Charset string // in small letters
	Coded   bool   // a Content-Encoding other than identity
	// Odd is why it can be read in two ways; the others mean nothing then.
	Odd string
}

// Content reads Content-Type and Content-Encoding.
func (r *Request) Content() Content {
	var c Content
	types := slices.Collect(r.Fields("Content-Type"))
	for coding := range r.Fields("Content-Encoding") {
		c.Coded = c.Coded || !strings.EqualFold(strings.TrimSpace(coding), "identity") && strings.TrimSpace(coding) != ""
	}
	switch {
	case len(types) > 1:
		c.Odd = "it has more than one Content-Type"
	case len(types) == 1:
		kind, params, err := mime.ParseMediaType(types[0])
		if err != nil {
			c.Odd = "its Content-Type cannot be read"
		}
		c.Type, c.Charset = kind, strings.ToLower(params["charset"])
	}
	return c
}

// IsForm reports whether a body of that type is one that frameworks read as a form.
func (c Content) IsForm() bool {
	return c.Type == "application/x-www-form-urlencoded" || c.Type == "multipart/form-data"
}

// Plain reports whether the charset is one in which JSON is written in the bytes of ASCII.
func (c Content) Plain() bool {
	return slices.Contains([]string{"", "utf-8", "utf8", "us-ascii", "iso-8859-1", "windows-1252", "latin1"}, c.Charset)
}

// JSON reports whether a text may be JSON in some charset, by how it begins; odd is why
// readers may differ about which: JSON is UTF-8 without a mark (RFC 8259 8.1), and many
// servers guess UTF-16 and UTF-32. More must be read where sure is false.
func JSON(head []byte) (is bool, odd string, sure bool) {
	for _, mark := range [][]byte{{0xff, 0xfe, 0, 0}, {0, 0, 0xfe, 0xff}, {0xef, 0xbb, 0xbf}, {0xff, 0xfe}, {0xfe, 0xff}} {
		if rest, ok := bytes.CutPrefix(head, mark); ok {
			head, odd = rest, "it begins with a byte order mark"
			break
		}
	}
	rest := bytes.TrimLeft(head, " \t\r\n\x00")
	if len(rest) == 0 {
		return false, odd, false
	}
	if rest[0] != '{' && rest[0] != '[' {
		return false, "", true
	}
	if odd == "" && (bytes.IndexByte(head[:len(head)-len(rest)], 0) >= 0 || len(rest) > 1 && rest[1] == 0) {
		odd = "it is written in UTF-16 or UTF-32"
	}
	return true, odd, len(rest) > 1
}
