package requests_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"cloister/api"
	"cloister/guardian/requests"
)

func TestRead(t *testing.T) {
	type body struct{ A, B int }
	for _, c := range []struct {
		text     string
		optional bool
		want     body
		bad      bool
	}{
		{text: `{"A":1,"B":2}`, want: body{1, 2}},
		{text: ``, bad: true},
		{text: ``, optional: true},
		{text: `{"A":1,"B":"x"}`, bad: true}, // and nothing of A
		{text: `{"A":1`, optional: true, bad: true},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://guardian/", strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		read := requests.Read[body]
		if c.optional {
			read = requests.Optional[body]
		}
		got, err := read(r)
		var of *api.Error
		if got != c.want || errors.As(err, &of) != c.bad || c.bad && of.Code != api.CodeBadRequest {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
}
