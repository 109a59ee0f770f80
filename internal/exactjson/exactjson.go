// Package exactjson is JSON that keeps every byte of a string.
//
// Paths, words and environments of Linux are bytes, and encoding/json replaces those that
// are no UTF-8: what the other end reads names another file, or none. What crosses between
// processes of Cloister, and what it keeps on disk about files, is written and read here.
//
// The promise: what Unmarshal reads of what Marshal wrote is equal, whatever bytes its
// strings, keys of maps included, have. A string that is UTF-8 and does not begin with a
// quotation mark looks as encoding/json writes it; others are spelled as Go quotes them.
//
// Types that write themselves (MarshalJSON, MarshalText) and byte slices are left alone.
// Documents for other programs, which know no such spelling, are written by [Document].
package exactjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// How encoding/json writes what it replaces, and how each spelled string begins: text
// without either has strings as they are.
var (
	replaced   = []byte(`\ufffd`)
	begins     = []byte(`"\"`)
	quoteByNum = []byte(`\u0022`)
)

// Marshal writes v, which is not changed.
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil || !bytes.Contains(text, replaced) && !bytes.Contains(text, begins) {
		return text, err
	}
	value, err := respelled(reflect.ValueOf(v), func(s string) (string, error) { return Spell(s), nil })
	if err != nil {
		return nil, err
	}
	return json.Marshal(value.Interface())
}

// MarshalIndent writes v for readers, too.
func MarshalIndent(v any, prefix, indent string) ([]byte, error) {
	text, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, text, prefix, indent)
	return out.Bytes(), err
}

// Unmarshal reads what Marshal wrote into v, a pointer.
func Unmarshal(text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return err
	}
	if !bytes.Contains(text, begins) && !bytes.Contains(text, quoteByNum) {
		return nil
	}
	return Restore(v)
}

// Restore gives each string of v, a pointer to what was decoded as JSON, its own bytes.
func Restore(v any) error {
	if plain(reflect.ValueOf(v)) {
		return nil
	}
	value, err := respelled(reflect.ValueOf(v), Unspell)
	if err == nil {
		reflect.ValueOf(v).Elem().Set(value.Elem())
	}
	return err
}

// Spell is a string as Marshal writes it.
func Spell(s string) string {
	if isPlain(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// Unspell is the way back.
func Unspell(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	text, err := strconv.Unquote(s)
	if err != nil {
		return "", fmt.Errorf("%.100q is not as this program writes it", s)
	}
	return text, nil
}

func isPlain(s string) bool { return !strings.HasPrefix(s, `"`) && utf8.ValidString(s) }

var (
	writesJSON = reflect.TypeFor[json.Marshaler]()
	writesText = reflect.TypeFor[encoding.TextMarshaler]()
)

// itself reports whether a type writes itself, or holds no string.
func itself(t reflect.Type) bool {
	if t.Implements(writesJSON) || t.Implements(writesText) {
		return true
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		p := reflect.PointerTo(t)
		if p.Implements(writesJSON) || p.Implements(writesText) {
			return true
		}
	}
	switch t.Kind() { //nolint:exhaustive // the others hold no string
	case reflect.String, reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface:
		return false
	case reflect.Slice, reflect.Array:
		return t.Elem().Kind() == reflect.Uint8
	}
	return true
}

// written reports whether encoding/json writes a field.
func written(f reflect.StructField) bool {
	return f.Tag.Get("json") != "-" && (f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct)
}

// plain reports whether encoding/json keeps all strings of v.
func plain(v reflect.Value) bool {
	if !v.IsValid() || itself(v.Type()) {
		return true
	}
	switch v.Kind() { //nolint:exhaustive // itself knows the others
	case reflect.String:
		return isPlain(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || plain(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if written(v.Type().Field(i)) && !plain(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !plain(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			if !plain(at.Key()) || !plain(at.Value()) {
				return false
			}
		}
	}
	return true
}

// respelled is a copy of v with each string in another spelling.
func respelled(v reflect.Value, how func(string) (string, error)) (reflect.Value, error) {
	if !v.IsValid() || itself(v.Type()) {
		return v, nil
	}
	out := reflect.New(v.Type()).Elem()
	put := func(to, from reflect.Value) error {
		got, err := respelled(from, how)
		if err == nil {
			to.Set(got)
		}
		return err
	}
	switch v.Kind() { //nolint:exhaustive // itself knows the others
	case reflect.String:
		s, err := how(v.String())
		out.SetString(s)
		return out, err
	case reflect.Pointer:
		if v.IsNil() {
			return v, nil
		}
		out.Set(reflect.New(v.Type().Elem()))
		return out, put(out.Elem(), v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return v, nil
		}
		return out, put(out, v.Elem())
	case reflect.Struct:
		out.Set(v)
		return out, fields(out, put)
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			if v.IsNil() {
				return v, nil
			}
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			if err := put(out.Index(i), v.Index(i)); err != nil {
				return out, err
			}
		}
	case reflect.Map:
		if v.IsNil() {
			return v, nil
		}
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for at := v.MapRange(); at.Next(); {
			key, err := respelled(at.Key(), how)
			if err != nil {
				return out, err
			}
			value, err := respelled(at.Value(), how)
			if err != nil {
				return out, err
			}
			out.SetMapIndex(key, value)
		}
	}
	return out, nil
}

// fields puts each field that is written, those of embedded structs too.
func fields(v reflect.Value, put func(to, from reflect.Value) error) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !written(f) {
			continue
		}
		var err error
		if f.IsExported() {
			err = put(v.Field(i), v.Field(i))
		} else {
			err = fields(v.Field(i), put)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
