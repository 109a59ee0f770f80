package wire

import "strings"

// A Field is one header line, its name as it was spelled.
type Field struct{ Name, Value string }

// A Header keeps order and spelling.
type Header []Field

// Get gives the value of the only field of that name; n says how many there are.
func (h Header) Get(name string) (value string, n int) {
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			if n == 0 {
				value = f.Value
			}
			n++
		}
	}
	return value, n
}

// All gives each field in order.
func (h Header) All(yield func(name, value string) bool) {
	for _, f := range h {
		if !yield(f.Name, f.Value) {
			return
		}
	}
}

// Tokens gives the comma-separated members of all fields of that name, lower case.
func (h Header) Tokens(name string) []string {
	var out []string
	for _, f := range h {
		if !strings.EqualFold(f.Name, name) {
			continue
		}
		for part := range strings.SplitSeq(f.Value, ",") {
			if part = strings.ToLower(strings.Trim(part, " \t")); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// Without gives h less the fields that drop names.
func (h Header) Without(drop func(name string) bool) Header {
	out := make(Header, 0, len(h))
	for _, f := range h {
		if !drop(strings.ToLower(f.Name)) {
			out = append(out, f)
		}
	}
	return out
}

// Append writes the fields in wire form, without the empty line.
func (h Header) Append(b []byte) []byte {
	for _, f := range h {
		b = f.Append(b)
	}
	return b
}

// Append writes the line.
func (f Field) Append(b []byte) []byte {
	b = append(append(b, f.Name...), ": "...)
	return append(append(b, f.Value...), "\r\n"...)
}

// ParseField parses one field line without its line end.
func ParseField(line string) (Field, error) {
	if line == "" {
		return Field{}, bad("an empty line among the fields")
	}
	if line[0] == ' ' || line[0] == '\t' {
		return Field{}, bad("a folded field")
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return Field{}, bad("a field without colon")
	}
	if trimmed := strings.TrimRight(name, " \t"); trimmed != name {
		return Field{}, bad("whitespace before the colon of a field")
	}
	if !isToken(name) {
		return Field{}, bad("a field name that is no token")
	}
	if err := checkLine(value); err != nil {
		return Field{}, err
	}
	if err := checkAlias(name); err != nil {
		return Field{}, err
	}
	return Field{Name: name, Value: strings.Trim(value, " \t")}, nil
}

// checkAlias refuses names which CGI-style servers cannot tell from the ones
// that say where a message ends or goes (HTTP_TRANSFER_ENCODING).
func checkAlias(name string) error {
	if !strings.Contains(name, "_") {
		return nil
	}
	switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
	case "content-length", "transfer-encoding":
		return bad("a field that spells %s with an underscore", strings.ReplaceAll(name, "_", "-"))
	}
	return nil
}

// checkLine holds text to what RFC 9110 5.5 lets a value have: visible ASCII,
// space, tab, and bytes over 0x7f.
func checkLine(s string) error {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return bad("the control byte 0x%02x", c)
		}
	}
	return nil
}
