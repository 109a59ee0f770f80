package launch_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"cloister/config"
	"cloister/internal/realpath"
	"cloister/policy"
	"cloister/policy/fileverdict"
	"cloister/sandbox/landlock"
	"cloister/session/launch"
)

// What policy explain says of a path is what the plan's covers and Landlock's rules come to,
// where everything can be written.
func TestTheTierKeepsWhatIsDecided(t *testing.T) {
	f := facts(t, config.Default())
	actions := []string{"FileOpen", "FileOpenReadOnly", "FileOpenReadWrite", "ProcessExec"}
	places := []string{`Dir::"/a"`, `Dir::"/a/b/"`, `File::"/a/b/c"`, `File::"/a/x"`, `Dir::"/"`, `Dir::"/d"`}
	paths := []string{"/a", "/a/b", "/a/b/c", "/a/b/d", "/a/x", "/a/y", "/d/e/f", "/z"}
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 6).Draw(rt, "statements") {
			fmt.Fprintf(&text, "%s (principal, action == Action::%q, resource in %s);\n",
				rapid.SampledFrom([]string{"permit", "permit", "forbid"}).Draw(rt, "effect"),
				rapid.SampledFrom(actions).Draw(rt, "action"), rapid.SampledFrom(places).Draw(rt, "place"))
		}
		f := f
		f.Isolation, f.Cedar = "native", []policy.CedarFile{{Name: "a.cedar", Text: []byte(text.String())}}
		list, err := policy.FileStatements(f.Cedar)
		if err != nil {
			rt.Fatal(err)
		}
		var accept []string
		for _, st := range list {
			if st.Hold == policy.Unkept || st.Hold == policy.InKernel {
				accept = append(accept, "residue:"+st.Residue())
			}
		}
		p, err := launch.Resolve(launch.Order{Accept: accept}, f)
		if err != nil {
			rt.Fatal(err)
		}
		if p.Judge != nil {
			_ = p.Judge.Close() // it keeps the same besides
		}
		rules := landlock.Lists(6, []string{"/"}, p.Permits)
		for _, at := range paths {
			var rights uint64
			for _, r := range rules {
				if r.Path == at || r.Named != landlock.File && realpath.Inside(at, r.Path) {
					rights |= r.Rights
				}
			}
			for use, need := range map[fileverdict.Use]uint64{
				fileverdict.Read: unix.LANDLOCK_ACCESS_FS_READ_FILE, fileverdict.Write: unix.LANDLOCK_ACCESS_FS_WRITE_FILE,
				fileverdict.Execute: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE,
			} {
				kept := rights&need == need
				for _, c := range p.View.Closed {
					kept = kept && (!realpath.Inside(at, path.Clean(c.Path)) || c.Write && use != fileverdict.Write)
				}
				if v := fileverdict.Of(list, at, use); (v.Effect == policy.Allow) != kept {
					rt.Fatalf("%s %s: said %s (%s), kept %t, by\n%s", use, at, v.Effect, v.Reason, kept, text.String())
				}
			}
		}
		if slices.ContainsFunc(p.Closed, func(rule string) bool { return rule == "" }) {
			rt.Fatal("a rule without a name")
		}
	})
}
