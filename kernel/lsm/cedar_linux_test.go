package lsm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"cloister/kernel/lsm"
)

// The kernel decides as Cedar does: forbid first, permit otherwise, nothing else, of an
// object and the folders it is in.
func TestKernelDecidesAsCedar(t *testing.T) {
	s := begin(t)
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 12 {
		tree(t)
		names := randomTree(t, random)
		p := lsm.Policy{}
		if random.IntN(2) == 0 {
			p.Permit = lsm.All
		}
		// What the attempt itself needs, whatever the policy.
		p.Rules = []lsm.Rule{{Path: "/init", Permit: lsm.All}, {Path: "/proc", Permit: lsm.All}, {Path: "/sys", Permit: lsm.All}, {Path: "/dev", Permit: lsm.All}}
		text := ""
		for _, word := range words(p.Permit) {
			text += fmt.Sprintf("permit (principal, action == Action::%q, resource);\n", word)
		}
		for range 1 + random.IntN(6) {
			name, rights := names[random.IntN(len(names))], lsm.Rights(1+random.IntN(3)) // read, write or both
			kernels := rights
			if rights&lsm.Read != 0 {
				kernels |= lsm.List // of a folder
			}
			r, effect := lsm.Rule{Path: name, Permit: kernels}, "permit"
			if random.IntN(2) == 0 {
				r, effect = lsm.Rule{Path: name, Forbid: kernels}, "forbid"
			}
			p.Rules = append(p.Rules, r)
			for _, word := range words(rights) {
				text += fmt.Sprintf("%s (principal, action == Action::%q, resource in Path::%q);\n", effect, word, name)
			}
		}
		if err := s.Apply(os.Getpid(), p); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("/names", []byte(strings.Join(names, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		list, err := os.Open("/names")
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, "judge all", true, list)
		var got []string
		for range names {
			line, err := c.out.ReadString('\n')
			if err != nil {
				t.Fatalf("round %d: after %d names: %v", round, len(got), err)
			}
			got = append(got, strings.TrimSpace(line))
		}
		if end := c.result(nil); end != "through" {
			t.Fatal(end)
		}
		list.Close()
		policies, err := cedar.NewPolicySetFromBytes("p", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		entities := entitiesOf(names)
		for i, name := range names {
			var can lsm.Rights
			for _, right := range []lsm.Rights{lsm.Read, lsm.Write} {
				if ok, _ := cedar.Authorize(policies, entities, cedar.Request{
					Principal: types.NewEntityUID("User", "u"), Action: types.NewEntityUID("Action", types.String(words(right)[0])),
					Resource: types.NewEntityUID("Path", types.String(name)),
				}); ok == cedar.Allow {
					can |= right
				}
			}
			if want := fmt.Sprintf("%s %d", name, can); got[i] != want {
				t.Errorf("round %d: the kernel says %q, Cedar %q, of\n%s", round, got[i], want, text)
			}
		}
	}
}

func words(r lsm.Rights) []string {
	var out []string
	for i, word := range []string{"Read", "Write", "Exec"} {
		if r&(1<<i) != 0 {
			out = append(out, word)
		}
	}
	return out
}

// randomTree makes some folders and files, and lists them all.
func randomTree(t *testing.T, random *rand.Rand) []string {
	t.Helper()
	dirs, names := []string{"/t/random"}, []string{"/t/random"}
	if err := os.Mkdir("/t/random", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 25 {
		name := fmt.Sprintf("%s/%d", dirs[random.IntN(len(dirs))], i)
		var err error
		if i%2 == 0 {
			err = os.Mkdir(name, 0o755)
			dirs = append(dirs, name)
		} else {
			err = os.WriteFile(name, []byte("x"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// entitiesOf are paths as Cedar's entities, each in its folder.
func entitiesOf(names []string) types.EntityMap {
	all := types.EntityMap{}
	for _, name := range names {
		uid := types.NewEntityUID("Path", types.String(name))
		all[uid] = types.Entity{UID: uid, Parents: types.NewEntityUIDSet(types.NewEntityUID("Path", types.String(filepath.Dir(name))))}
	}
	return all
}
