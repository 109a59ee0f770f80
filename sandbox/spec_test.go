package sandbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/internal/exactjson"
	"cloister/sandbox"
)

func hostile(s string) sandbox.Spec {
	return sandbox.Spec{
		ID: "x", Argv: []string{s}, Env: []string{"A=" + s}, Dir: sandbox.GuestPath("/" + s), Denied: []string{s},
		Binds:   []sandbox.Bind{{Source: sandbox.HostPath("/" + s), Target: sandbox.GuestPath(s)}},
		Protect: []sandbox.Protect{{Target: sandbox.GuestPath("/p/" + s)}},
		Files:   []sandbox.File{{Path: sandbox.GuestPath("/f/" + s), Data: []byte(s)}},
		Links:   []sandbox.Link{{Path: "/l", Target: s}},
	}
}

// A description keeps every byte, and another description has another digest.
func TestSpecKeepsEveryByte(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []string{"", "a", "\xff", "\xfe", "�", `"`, `"\xff"`, "\x00", "\xed\xa0\x80"} {
		text, err := exactjson.Marshal(hostile(s))
		if err != nil {
			t.Fatal(err)
		}
		var got sandbox.Spec
		if err := exactjson.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		want := hostile(s)
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })); diff != "" {
			t.Errorf("%q: %s", s, diff)
		}
		if other, same := seen[got.Digest()]; same {
			t.Errorf("%q and %q have one digest", s, other)
		}
		seen[got.Digest()] = s
	}
}
