package launch

import (
	"testing"

	"cloister/config"
	"cloister/policy"
)

// A statement that is kept does not speak for one of the same name that nothing keeps.
func TestNamesThatAreTheSame(t *testing.T) {
	list, err := policy.FileStatements([]policy.CedarFile{{Name: "p.cedar", Text: []byte(`
@id("x") forbid (principal, action == Action::"FileOpen", resource == File::"/etc/hosts");
@id("x") @ask permit (principal, action == Action::"FileOpen", resource == File::"/etc/passwd");`)}})
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{}
	p.keep(Order{}, Facts{Isolation: "docker", Config: &config.Config{}}, list)
	if len(p.Closed) != 0 {
		t.Errorf("said to be kept: %q", p.Closed)
	}
}
