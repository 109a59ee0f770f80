package random_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"cloister/internal/random"
)

func TestBytesAndWords(t *testing.T) {
	one, two := random.Bytes(32), random.Bytes(32)
	if len(one) != 32 || bytes.Equal(one, two) || bytes.Equal(one, make([]byte, 32)) {
		t.Errorf("made %x and %x", one, two)
	}
	word, other := random.Word(16), random.Word(16)
	raw, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil || len(raw) != 16 || word == other {
		t.Errorf("made %q and %q: %v", word, other, err)
	}
}
