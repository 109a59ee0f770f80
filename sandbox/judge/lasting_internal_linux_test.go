package judge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/kernel/lsm"
	"cloister/sandbox"
)

// unchanged is a session whose policy must not be replaced.
type unchanged struct{ session }

func (u unchanged) Replace(lsm.Policy) error { return nil }

// A rule that the kernel alone would keep is refused where inodes do not stay, at a start and later.
func TestLasting(t *testing.T) {
	at := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		t.Fatal(err)
	}
	rule := sandbox.Judged{Path: sandbox.GuestPath(at), Rule: "r"}
	covered, absent := rule, sandbox.Judged{Path: sandbox.GuestPath(at + "/none"), Rule: "r"}
	covered.Covered = true
	for name, c := range map[string]struct {
		rule  sandbox.Judged
		kinds map[int64]string
		want  string
	}{
		"alone": {rule, map[int64]string{int64(st.Type): "Passing"}, "lies on Passing"}, "beside the view": {covered, map[int64]string{int64(st.Type): "Passing"}, ""},
		"absent": {absent, map[int64]string{int64(st.Type): "Passing"}, ""}, "it stays": {rule, nil, ""},
	} {
		err := lasting(os.Getpid(), sandbox.Spec{Judged: []sandbox.Judged{c.rule}}, c.kinds)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	j := &Judge{session: unchanged{}, names: map[string]string{}, pid: os.Getpid()}
	if err := j.Apply(sandbox.Spec{Judged: []sandbox.Judged{rule}}); err != nil {
		t.Error(err)
	}
	if j.pid = 1 << 30; j.Apply(sandbox.Spec{Judged: []sandbox.Judged{rule}}) == nil {
		t.Error("later statements are not looked at")
	}
}
