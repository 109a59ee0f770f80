package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// An Encoding is one way in which programs write a text.
type Encoding struct {
	Name string
	// of gives the parts that are the same whatever stands around the text: one,
	// or for base64 one for each of the three places where a text can begin.
	of func(text string) []string
}

// Encodings are those that are looked for.
func Encodings() []Encoding {
	one := func(f func(string) string) func(string) []string {
		return func(text string) []string { return []string{f(text)} }
	}
	return []Encoding{
		{"plain", one(func(s string) string { return s })},
		{"base64", func(s string) []string { return base64Cores(s, base64.RawStdEncoding) }},
		{"base64url", func(s string) []string { return base64Cores(s, base64.RawURLEncoding) }},
		{"hex", one(func(s string) string { return hex.EncodeToString([]byte(s)) })},
		{"HEX", one(func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) })},
		{"query", one(url.QueryEscape)},
		{"path", one(url.PathEscape)},
		{"percent", one(percentAll)},
		{"json", one(jsonText)},
		{"html", one(html.EscapeString)},
	}
}

// base64Cores are the characters that a text has in base64 whatever stands before
// and behind it, for each of the three places in a group where it can begin.
func base64Cores(s string, enc *base64.Encoding) []string {
	var out []string
	for shift := range 3 {
		// What shares a character with a neighbour is left out at both ends.
		head := (shift*8 + 5) / 6 // characters that hold a bit of what stands before
		whole := (shift + len(s)) * 8 / 6
		text := enc.EncodeToString(append(make([]byte, shift), s...))
		if head < whole {
			out = append(out, text[head:whole])
		}
	}
	return out
}

// percentAll escapes each byte, as no library does and an agent may.
func percentAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{s[i]})))
	}
	return b.String()
}

// jsonText is a text inside a JSON string.
func jsonText(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return s // a string can always be encoded
	}
	return strings.Trim(string(text), `"`)
}

// needles are all texts by which one text is known, with what may stand in their
// place: as much of instead in the same encoding where it is as long, or else a
// filler.
func needles(text, instead string, owner int) []needle {
	var out []needle
	for _, e := range Encodings() {
		var other []string
		if len(instead) == len(text) {
			other = e.of(instead)
		}
		for i, n := range e.of(text) {
			if slices.ContainsFunc(out, func(o needle) bool { return o.text == n }) {
				continue
			}
			fill := strings.Repeat("0", len(n))
			if e.Name == "plain" && instead != "" {
				fill = padded(instead, len(n))
			}
			if i < len(other) && len(other[i]) == len(n) {
				fill = other[i]
			}
			out = append(out, needle{text: n, owner: owner, instead: fill})
		}
	}
	return out
}

// padded is text as n bytes.
func padded(text string, n int) string {
	if len(text) >= n {
		return text[:n]
	}
	return text + strings.Repeat("*", n-len(text))
}
