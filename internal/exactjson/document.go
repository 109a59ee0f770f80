package exactjson

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Document writes v for other programs, indented by two spaces and with a newline at its end. A string that is UTF-8 is
// as encoding/json writes it. Any other is written as git writes such a name, quoted with its bytes escaped
// ("caf\xe9"), so that no two are one; and an object that has it in a member, such as path, has the bytes themselves in
// path_base64 after it. A string that looks like one that was quoted so is quoted too.
func Document(v any) ([]byte, error) {
	text, err := indented(v)
	if err != nil || !bytes.Contains(text, replaced) && !bytes.Contains(text, begins) {
		return text, err
	}
	// No string of v, which a payload may have chosen, is mistaken for one of these.
	mark := rand.Text()
	marked, err := respelled(reflect.ValueOf(v), func(s string) (string, error) {
		if utf8.ValidString(s) && !looksQuoted(s) {
			return s, nil
		}
		return mark + base64.StdEncoding.EncodeToString([]byte(s)), nil
	})
	if err != nil {
		return nil, err
	}
	if text, err = indented(marked.Interface()); err != nil {
		return nil, err
	}
	// A string in a line of its own: the name of the member that has it, if one has.
	member := regexp.MustCompile(`(?m)^( *)"((?:[^"\\]|\\.)*)": "` + mark + `([A-Za-z0-9+/=]*)"`)
	text = member.ReplaceAllFunc(text, func(m []byte) []byte {
		part := member.FindSubmatch(m)
		quoted, qerr := quotedText(part[3])
		if qerr != nil {
			err = qerr
		}
		return bytes.Join([][]byte{part[1], []byte(`"`), part[2], []byte(`": `), quoted, []byte(",\n"), part[1], []byte(`"`),
			part[2], []byte(`_base64": "`), part[3], []byte(`"`)}, nil)
	})
	other := regexp.MustCompile(`"` + mark + `([A-Za-z0-9+/=]*)"`)
	text = other.ReplaceAllFunc(text, func(m []byte) []byte {
		quoted, qerr := quotedText(other.FindSubmatch(m)[1])
		if qerr != nil {
			err = qerr
		}
		return quoted
	})
	return text, err
}

// looksQuoted reports whether a string is what another one is quoted as, which is no UTF-8 or looks quoted itself.
func looksQuoted(s string) bool {
	for strings.HasPrefix(s, `"`) {
		inner, err := strconv.Unquote(s)
		if err != nil || !utf8.ValidString(inner) {
			return err == nil
		}
		s = inner
	}
	return false
}

func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// quotedText is the JSON of what base64 holds, quoted.
func quotedText(coded []byte) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(string(coded))
	if err != nil {
		return nil, err
	}
	return json.Marshal(strconv.QuoteToASCII(string(raw)))
}
