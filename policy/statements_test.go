package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/policy"
	"cloister/policy/filerule"
)

// Each kind of statement about files is either in the view, path by path, or
// a residue with a reason. None is passed over.
func TestFileStatements(t *testing.T) {
	type closed = policy.ClosedPath
	for name, tc := range map[string]struct {
		text   string
		hold   policy.Hold
		closed []closed
	}{
		"a file":     {`forbid (principal, action == Action::"FileOpen", resource == File::"/etc/passwd");`, policy.InView, []closed{{Path: "/etc/passwd"}}},
		"a folder":   {`forbid (principal, action == Action::"FileOpenReadOnly", resource) when { resource in [Dir::"/opt/keys/"] };`, policy.InView, []closed{{Path: "/opt/keys", Dir: true}}},
		"writing":    {`forbid (principal, action == Action::"FileOpenReadWrite", resource in Dir::"/p/x");`, policy.InView, []closed{{Path: "/p/x", Dir: true, Write: true}}},
		"mixed":      {`forbid (principal, action == Action::"FileOpen", resource) when { resource in [Dir::"/a/../b/", File::"/c"] };`, policy.InView, []closed{{Path: "/b", Dir: true}, {Path: "/c"}}},
		"a program":  {`forbid (principal, action == Action::"ProcessExec", resource == File::"/usr/bin/curl");`, policy.InView, []closed{{Path: "/usr/bin/curl"}}},
		"programs":   {`forbid (principal, action == Action::"ProcessExec", resource in Dir::"/usr/bin/");`, policy.InKernel, []closed{{Path: "/usr/bin", Dir: true, Exec: true}}},
		"everything": {`forbid (principal, action == Action::"FileOpen", resource);`, policy.Unkept, nil},
		"root":       {`forbid (principal, action == Action::"FileOpenReadWrite", resource in Dir::"/");`, policy.Unkept, nil},
		"relative":   {`forbid (principal, action == Action::"FileOpen", resource == File::"etc/passwd");`, policy.Unkept, nil},
		"wildcard":   {`forbid (principal, action == Action::"FileOpen", resource == File::"/etc/*");`, policy.Unkept, nil},
		"an agent":   {`forbid (principal in Agent::"codex", action == Action::"FileOpen", resource == File::"/c");`, policy.Unkept, nil},
		"unless":     {`forbid (principal, action == Action::"FileOpen", resource in Dir::"/c") unless { resource == File::"/c/d" };`, policy.Unkept, nil},
		"or else":    {`forbid (principal, action == Action::"FileOpen", resource) when { resource == File::"/c" || principal in Agent::"x" };`, policy.Unkept, nil},
		"ask": {`@ask permit (principal, action == Action::"FileOpen", resource == File::"/c");`, policy.InView,
			[]closed{{Path: "/c", Ask: filerule.Asks{Read: true, Write: true}}}},
		"ask to write": {`@ask permit (principal, action == Action::"FileOpenReadWrite", resource == File::"/c");`, policy.InView,
			[]closed{{Path: "/c", Write: true, Ask: filerule.Asks{Write: true}}}},
		"ask, a folder": {`@ask permit (principal, action == Action::"FileOpen", resource in Dir::"/c");`, policy.Unkept, nil},
		"ask, a program": {`@ask permit (principal, action == Action::"ProcessExec", resource == File::"/c");`, policy.InView,
			[]closed{{Path: "/c", Ask: filerule.Asks{Exec: true}}}},
		"ask, all":     {`@ask permit (principal, action == Action::"FileOpen", resource);`, policy.Unkept, nil},
		"a narrow one": {`permit (principal, action == Action::"FileOpen", resource in Dir::"/workspace/");`, policy.InList, nil},
		"to read all":  {`permit (principal, action == Action::"FileOpenReadOnly", resource);`, policy.InList, nil},
		"of an agent":  {`permit (principal in Agent::"codex", action == Action::"ProcessExec", resource == File::"/c");`, policy.Unkept, nil},
		"by pattern":   {`permit (principal, action == Action::"FileOpen", resource == File::"/c/*");`, policy.Unkept, nil},
		"a wide one":   {`permit (principal, action in [Action::"FileOpen", Action::"FileOpenReadWrite"], resource) when { resource in [Dir::"/"] };`, policy.Kept, nil},
		"two kinds":    {`forbid (principal, action in [Action::"FileOpen", Action::"ProcessExec"], resource in Dir::"/c");`, policy.InKernel, []closed{{Path: "/c", Dir: true}, {Path: "/c", Dir: true, Exec: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := policy.FileStatements([]policy.CedarFile{{Name: "f.cedar", Text: []byte(tc.text)}})
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			st := list[0]
			if st.Hold != tc.hold {
				t.Errorf("hold %s, want %s: %s", st.Hold, tc.hold, st.Why)
			}
			if diff := cmp.Diff(tc.closed, st.Closed); diff != "" {
				t.Error(diff)
			}
			if st.Residue() != "policy:f.cedar#1" || st.Origin.Line != 1 {
				t.Errorf("named %s at %s", st.Residue(), st.Origin)
			}
			// What only the kernel keeps says both: by what, and why nothing else does.
			if (st.Hold <= policy.InList || st.Asks()) != (st.Why != "") || (st.Hold == policy.Unkept) != (st.By == "") {
				t.Errorf("by %q, but %q", st.By, st.Why)
			}
		})
	}
	if list, err := policy.FileStatements([]policy.CedarFile{{Name: "f", Text: []byte(`permit (principal, action == Action::"NetworkConnect", resource);`)}}); err != nil || len(list) != 0 {
		t.Errorf("a file about hosts: %v, %v", list, err)
	}
}

// What permits leave is what they name, each with its rights.
func TestPermitted(t *testing.T) {
	list, err := policy.FileStatements([]policy.CedarFile{{Name: "f.cedar", Text: []byte(`
		permit (principal, action in [Action::"FileOpenReadOnly", Action::"ProcessExec"], resource in Dir::"/usr/");
		permit (principal, action == Action::"FileOpenReadWrite", resource) when { resource in [File::"/p/[slug].ts", Dir::"/p/out/"] };
		permit (principal, action == Action::"FileOpen", resource);
		permit (principal, action == Action::"FileOpenReadOnly", resource in Dir::"/");
		forbid (principal, action == Action::"FileOpen", resource == File::"/p/out/x");
		permit (principal, action, resource == File::"/c");`)}})
	if err != nil {
		t.Fatal(err)
	}
	var got [][]policy.PermittedPath
	var holds []policy.Hold
	for _, st := range list {
		got, holds = append(got, st.Permitted), append(holds, st.Hold)
	}
	if diff := cmp.Diff([]policy.Hold{policy.InList, policy.InList, policy.Kept, policy.InList, policy.InView, policy.InList}, holds); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]policy.PermittedPath{
		{{Path: "/usr", Dir: true, Read: true}, {Path: "/usr", Dir: true, Exec: true}},
		{{Path: "/p/[slug].ts", Read: true, Write: true}, {Path: "/p/out", Dir: true, Read: true, Write: true}},
		{{Path: "/", Dir: true, Read: true, Write: true}},
		{{Path: "/", Dir: true, Read: true}},
		nil,
		{{Path: "/c", Read: true, Write: true}, {Path: "/c", Read: true}, {Path: "/c", Read: true, Write: true}, {Path: "/c", Exec: true}},
	}, got); diff != "" {
		t.Error(diff)
	}
}
