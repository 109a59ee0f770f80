package swap

import (
	"fmt"
	"strings"
	"testing"

	"cloister/secret"
	"cloister/swap/unpack"
)

// A value that was sent once is scrubbed, however often another secret changes.
func TestAStaticSecretIsNotForgotten(t *testing.T) {
	value := func(text string) secret.Value {
		v, err := secret.New(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	still, moving := value("static-static-static"), value("moving-moving-moving")
	s := New([]Held{{Name: "A", Placeholder: secret.NewPlaceholder(still)}, {Name: "B", Placeholder: secret.NewPlaceholder(moving)}}, nil, nil, unpack.NewMemory(64<<20))
	s.remember(&s.held[0], still, 1)
	for i := range 40 {
		s.remember(&s.held[1], value(fmt.Sprintf("moving-moving-moving-%02d", i)), uint64(i))
	}
	for text, gone := range map[string]bool{"static-static-static": true, "moving-moving-moving-39": true, "moving-moving-moving-32": true, "moving-moving-moving-31": false} {
		if got, _ := s.scrubber().Text(text); strings.Contains(got, text) == gone {
			t.Errorf("%s became %s", text, got)
		}
	}
	if len(s.sent) != 9 {
		t.Errorf("%d values are remembered", len(s.sent))
	}
}
