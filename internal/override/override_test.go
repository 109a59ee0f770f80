package override_test

import (
	"maps"
	"testing"

	"cloister/internal/override"
)

func TestFields(t *testing.T) {
	for field, want := range map[string]struct{ method, path bool }{
		"X-HTTP-Method-Override": {method: true}, "x_http_method": {method: true}, "X-Method-Override": {method: true},
		"X-Original-URL": {path: true}, "x_rewrite_url": {path: true},
		"X-HTTP-Method-Overrides": {}, "X-Original": {}, "": {},
	} {
		if m, p := override.Method(field), override.Path(field); m != want.method || p != want.path {
			t.Errorf("%q: method %v, path %v", field, m, p)
		}
	}
}

func TestQuery(t *testing.T) {
	got := maps.Collect(override.Query("a=1;_method=%44ELETE&%5FMethod=PUT&x_method=GET&b=_method&_method%zz=PATCH"))
	want := map[string]string{"_method": "DELETE", "%5FMethod": "PUT"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
