package fileverdict_test

import (
	"testing"

	"cloister/policy"
	"cloister/policy/fileverdict"
)

// What Cloister copies of a project into an image or beside an agent lacks what the agent's view shows empty.
func TestHides(t *testing.T) {
	list, err := policy.FileStatements([]policy.CedarFile{{Name: "p.cedar", Text: []byte(`
forbid (principal, action == Action::"FileOpen", resource == File::"/p/.env");
forbid (principal, action == Action::"FileOpenReadOnly", resource in Dir::"/p/keys");
forbid (principal, action == Action::"FileOpen", resource in Glob::"*.pem");
forbid (principal, action == Action::"FileOpenReadWrite", resource == File::"/p/held");
@ask permit (principal, action == Action::"FileOpen", resource == File::"/p/asked");
permit (principal, action == Action::"FileOpenReadOnly", resource in Dir::"/usr");`)}})
	if err != nil {
		t.Fatal(err)
	}
	hides := fileverdict.Hides(list, "/p")
	for rel, want := range map[string]bool{
		".env": true, "keys": true, "keys/a": true, "x/y.pem": true, "asked": true, "held": false, "other": false, ".envrc": false,
	} {
		if hides(rel) != want {
			t.Errorf("%s: hidden %v", rel, !want)
		}
	}
}
