// Package secret keeps a real credential apart from everything that prints,
// records or carries data.
//
// Promise: a Value says the same mark however it is printed, logged or encoded,
// and one method gives the text away: Reveal, whose callers a test lists. A
// placeholder has the shape of its secret and tells nothing of it. Find sees a
// placeholder and Scrub a value in a stream, whole or split, plain or in the
// encodings that programs use; what someone encodes on purpose in a way of
// their own, they do not see.
//
// It does not keep secrets on disk (secret/vault does), does not decide who may
// use one (policy does) and does not know a connection (egress does).
//
// Most readers want Value, then Binding.
package secret

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Mark is what a Value looks like, however it is printed.
const Mark = "[secret]"

// MaxValue bounds a secret: a header must hold it.
const MaxValue = 16 << 10

// A Value is a real credential. The zero Value is none. The text is in a closure,
// where neither fmt nor another printer by reflection can reach it, also in an
// unexported field.
type Value struct{ text func() string }

// New makes a Value of a text that a header can carry.
func New(text string) (Value, error) {
	switch {
	case text == "":
		return Value{}, errors.New("the value is empty")
	case len(text) > MaxValue:
		return Value{}, fmt.Errorf("the value is longer than %d bytes", MaxValue)
	case strings.ContainsAny(text, "\r\n"):
		return Value{}, errors.New("the value has more than one line")
	case strings.ContainsRune(text, 0):
		return Value{}, errors.New("the value has a NUL byte")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return Value{}, errors.New("the value has a control character")
	case strings.TrimSpace(text) != text:
		return Value{}, errors.New("the value begins or ends with a space")
	}
	return Value{func() string { return text }}, nil
}

// Seal makes a Value of a text of any form, such as a record of several fields.
func Seal(text string) Value { return Value{func() string { return text }} }

// Reveal gives the text away. Its callers are listed in TestRevealers.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return v.text()
}

// Is reports whether two values are the same.
func (v Value) Is(other Value) bool { return v.Reveal() == other.Reveal() }

// IsZero reports whether there is no value.
func (v Value) IsZero() bool { return v.text == nil }

// String is the mark.
func (Value) String() string { return Mark }

// GoString is the mark.
func (Value) GoString() string { return Mark }

// Format writes the mark for every verb.
func (Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Mark)) }

// MarshalText is the mark, also as a key of a JSON object.
func (Value) MarshalText() ([]byte, error) { return []byte(Mark), nil }

// MarshalJSON is the mark.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Mark + `"`), nil }

// MarshalBinary is the mark.
func (Value) MarshalBinary() ([]byte, error) { return []byte(Mark), nil }

// LogValue is the mark.
func (Value) LogValue() slog.Value { return slog.StringValue(Mark) }
