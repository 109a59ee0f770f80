package git_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/git"
	"cloister/host/resolve"
	"cloister/internal/needs"
)

// TestMain is also the far end that a git push of a test speaks with: git starts
// what --receive-pack names.
func TestMain(m *testing.M) {
	if text := os.Getenv("CLOISTER_TEST_GIT"); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, "served:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// order is what the far end is told.
type order struct {
	Depots, Remote, Seen string
	Deny                 string // why not
	Meanwhile            string // a command before the answer
	Env                  []string
	Project              bool // Remote is the folder of a session's own project
	Deaf                 bool // who pushes does not wait for the report
}

// deaf is the way to one who hears nothing from a moment on.
type deaf struct {
	io.Writer
	now bool
}

func (d *deaf) Write(p []byte) (int, error) {
	if d.now {
		return 0, io.ErrClosedPipe
	}
	return d.Writer.Write(p)
}

func serve(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	r, err := git.ParseRemote(o.Remote)
	if o.Project {
		r, err = git.OfProject(o.Remote)
	}
	if err != nil {
		return err
	}
	d, err := git.NewDepots(o.Depots, o.Env, resolve.In(o.Depots, os.Getuid())).Open(ctx, "/project", r)
	if err != nil {
		return err
	}
	if slices.Contains(os.Args, "fetch") {
		return d.Fetch(ctx, os.Stdin, os.Stdout)
	}
	var came *git.Push
	out := &deaf{Writer: os.Stdout}
	err = d.Push(ctx, os.Stdin, out, func(ctx context.Context, p *git.Push) error {
		came, out.now = p, o.Deaf
		for _, u := range p.Updates {
			if u.Fresh > 0 && p.Bytes <= 0 {
				return fmt.Errorf("%d bytes of objects came", p.Bytes)
			}
		}
		seen, err := json.Marshal(p)
		if err == nil {
			err = os.WriteFile(o.Seen, seen, 0o600)
		}
		if err == nil && o.Meanwhile != "" {
			err = exec.CommandContext(ctx, "sh", "-c", o.Meanwhile).Run()
		}
		if err == nil && o.Deny != "" {
			err = errors.New(o.Deny)
		}
		return err
	})
	if came != nil {
		after, jerr := json.Marshal(came)
		err = errors.Join(err, jerr, os.WriteFile(o.Seen+".after", after, 0o600))
	}
	return err
}

// hosted is a remote, a depot and a repository that a cloister writes.
type hosted struct {
	t     *testing.T
	dir   string
	order order
}

func newHosted(t *testing.T) *hosted {
	t.Helper()
	path := needs.Program(t, "git", "git")
	dir := t.TempDir()
	h := &hosted{t: t, dir: dir, order: order{
		Depots: filepath.Join(dir, "depots"), Remote: "file://" + filepath.Join(dir, "remote.git"), Seen: filepath.Join(dir, "seen"),
		Env: []string{"PATH=" + filepath.Dir(path) + ":/usr/bin:/bin", "HOME=" + dir},
	}}
	h.must("init", "-q", "--bare", "-b", "main", filepath.Join(dir, "remote.git"))
	h.must("init", "-q", "-b", "main", filepath.Join(dir, "work"))
	h.commit("first", "file", "one\n")
	h.must("push", "-q", h.order.Remote, "main")
	return h
}

// git runs git as the agent, in its repository.
func (h *hosted) git(args ...string) (string, error) {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := json.Marshal(h.order)
	if err != nil {
		h.t.Fatal(err)
	}
	work := filepath.Join(h.dir, "work")
	if _, err := os.Stat(work); err != nil {
		work = h.dir
	}
	c := exec.CommandContext(h.t.Context(), "git", args...)
	c.Dir = work
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "GIT_CONFIG_NOSYSTEM=1", "CLOISTER_TEST_GIT=" + string(text), "SELF=" + self,
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@x", "LC_ALL=C",
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

func (h *hosted) must(args ...string) string {
	h.t.Helper()
	out, err := h.git(args...)
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (h *hosted) commit(subject, name, text string) string {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "work", name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
	h.must("add", "-A")
	h.must("commit", "-q", "-m", subject)
	return h.must("rev-parse", "HEAD")
}

// push is git push by way of a depot.
func (h *hosted) push(args ...string) (string, error) {
	h.t.Helper()
	_ = os.Remove(h.order.Seen) // it may not be there
	return h.git(append([]string{"push", "--receive-pack=\"$SELF\" push", filepath.Join(h.dir, "remote.git")}, args...)...)
}

func (h *hosted) seen() git.Push {
	h.t.Helper()
	var p git.Push
	text, err := os.ReadFile(h.order.Seen)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// at is what the remote has under a name; "" for nothing.
func (h *hosted) at(ref string) string {
	h.t.Helper()
	out, err := h.git("--git-dir="+filepath.Join(h.dir, "remote.git"), "rev-parse", "--verify", "-q", ref)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// left are objects that lie apart and should not.
func (h *hosted) left() []string {
	found, _ := filepath.Glob(filepath.Join(h.order.Depots, "*", "incoming-*"))
	return found
}

func TestPush(t *testing.T) {
	h := newHosted(t)
	first := h.at("main")
	second := h.commit("second\x1b[31m", "file", "one\ntwo\n")
	out, err := h.push("main")
	if err != nil || h.at("main") != second {
		t.Fatalf("%v\n%s", err, out)
	}
	p := h.seen()
	u := p.Updates[0]
	if u.Old != first || u.New != second || u.Force || u.Fresh != 1 || u.Commits[0].Subject != "second\x1b[31m" || u.Files[0].Path != "file" || u.Plus != 1 {
		t.Errorf("seen: %+v", u)
	}
	if p.Marks() == "" || strings.Contains(fmt.Sprint(p.Shown()), "\x1b") {
		t.Errorf("a hidden character: %q %q", p.Marks(), p.Shown())
	}

	t.Run("denied", func(t *testing.T) {
		third := h.commit("third", "file", "three\n")
		h.order.Deny = "not today"
		out, err := h.push("main", "main:other")
		h.order.Deny = ""
		if err == nil || !strings.Contains(out, "not today") || h.at("main") != second || h.at("other") != "" {
			t.Errorf("%v\n%s", err, out)
		}
		// Nor does the guardian keep what nobody said yes to.
		depots, err := filepath.Glob(filepath.Join(h.order.Depots, "*.git"))
		if err != nil || len(depots) != 1 {
			t.Fatal(depots, err)
		}
		if _, err := h.git("--git-dir="+depots[0], "cat-file", "-e", third); err == nil {
			t.Error("the commit is in the depot")
		}
		if _, err := h.git("--git-dir="+depots[0], "cat-file", "-e", second); err != nil {
			t.Error("the control: what was pushed is not in the depot")
		}
	})
	t.Run("force", func(t *testing.T) {
		h.must("reset", "-q", "--hard", first)
		new := h.commit("instead", "file", "instead\n")
		if out, err := h.push("main"); err == nil || !strings.Contains(out, "non-fast-forward") {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := h.push("--force", "main"); err != nil || h.at("main") != new {
			t.Errorf("%v\n%s", err, out)
		}
		p := h.seen()
		if u := p.Updates[0]; !u.Force || u.Lost != 1 || !slices.Contains(p.Argv(&u), "--force") {
			t.Errorf("seen: %+v", u)
		}
	})
	t.Run("moved meanwhile", func(t *testing.T) {
		before := h.at("main")
		h.commit("late", "file", "late\n")
		h.order.Meanwhile = "git --git-dir=" + h.dir + "/remote.git update-ref refs/heads/main " + first
		out, err := h.push("main")
		h.order.Meanwhile = ""
		if err == nil || !strings.Contains(out, "not as it was shown") || h.at("main") != first {
			t.Errorf("%v, %s then %s\n%s", err, before, h.at("main"), out)
		}
	})
	t.Run("new branch, tag, deletion", func(t *testing.T) {
		h.must("tag", "-a", "-m", "one", "v1")
		if out, err := h.push("main:topic", "v1"); err != nil || h.at("topic") == "" || h.at("refs/tags/v1") == "" {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := h.push(":topic"); err != nil || h.at("topic") != "" {
			t.Errorf("%v\n%s", err, out)
		}
		p := h.seen()
		if argv := p.Argv(&p.Updates[0]); !slices.Contains(argv, "--delete") || !p.Updates[0].Force {
			t.Errorf("%q %+v", argv, p)
		}
	})
	t.Run("fetch", func(t *testing.T) {
		out, err := h.git("ls-remote", "--upload-pack=\"$SELF\" fetch", filepath.Join(h.dir, "remote.git"))
		if err != nil || !strings.Contains(out, "refs/tags/v1") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	if found := h.left(); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}

// TestBadObjects: what git of somebody else would trip over does not get out.
// TestPushThatIsNotHeard: what came to the remote is known to have come though who pushed closed its end before the
// report, and the push is an error; what the remote refused is known to have stayed.
func TestPushThatIsNotHeard(t *testing.T) {
	h := newHosted(t)
	stayed := func() []bool {
		t.Helper()
		var p git.Push
		text, err := os.ReadFile(h.order.Seen + ".after")
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		var out []bool
		for _, u := range p.Updates {
			out = append(out, u.Stayed)
		}
		return out
	}
	second := h.commit("second", "file", "two\n")
	h.order.Deaf = true
	out, err := h.push("HEAD:refs/heads/unheard")
	if err == nil || !strings.Contains(out, "served: ") || h.at("unheard") != second {
		t.Fatalf("the control: %v, at %s\n%s", err, h.at("unheard"), out)
	}
	if got := stayed(); !slices.Equal(got, []bool{false}) {
		t.Errorf("what came stayed: %v", got)
	}
	h.order.Deaf = false
	h.order.Meanwhile = "git --git-dir=" + filepath.Join(h.dir, "remote.git") + " update-ref refs/heads/main " + second + "^0"
	h.must("push", "-q", h.order.Remote, second+":refs/heads/other")
	third := h.commit("third", "file", "three\n")
	if out, err := h.push("HEAD:refs/heads/main", "HEAD:refs/heads/beside"); err == nil || h.at("beside") != third {
		t.Fatalf("the control: %v\n%s", err, out)
	}
	if got := stayed(); !slices.Equal(got, []bool{true, false}) && !slices.Equal(got, []bool{false, true}) {
		t.Errorf("of one that was refused and one that came stayed %v", got)
	}
}

func TestBadObjects(t *testing.T) {
	h := newHosted(t)
	first := h.at("main")
	blob := h.must("hash-object", "-w", filepath.Join(h.dir, "work", "file"))
	tree := filepath.Join(h.dir, "tree")
	raw := make([]byte, 20)
	for i := range raw {
		fmt.Sscanf(blob[2*i:2*i+2], "%02x", &raw[i])
	}
	write := func(name string) {
		if err := os.WriteFile(tree, append([]byte("100644 "+name+"\x00"), raw...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"fine": true, ".git": false, "..": false} {
		write(name)
		oid := h.must("hash-object", "-t", "tree", "-w", "--literally", tree)
		commit := h.must("commit-tree", "-m", "a tree with "+name, "-p", first, oid)
		out, err := h.push(commit + ":refs/heads/x" + strings.Trim(name, "."))
		if (err == nil) != want {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	// A commit whose parent is missing is none that the remote could have. git
	// would not send it: the words are this test's own.
	lonely := h.must("hash-object", "-t", "commit", "-w", "--literally", lonelyCommit(t, h, first))
	if said := h.raw(lonely, "refs/heads/lonely"); h.at("lonely") != "" || !strings.Contains(said, "ng refs/heads/lonely") {
		t.Errorf("a commit without its parent: %q", said)
	}
	whole := h.must("commit-tree", "-m", "whole", "-p", first, first+"^{tree}")
	if said := h.raw(whole, "refs/heads/whole"); h.at("whole") != whole || !strings.Contains(said, "ok refs/heads/whole") {
		t.Errorf("the control: %q", said)
	}
	if found := h.left(); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}

func lonelyCommit(t *testing.T, h *hosted, first string) string {
	t.Helper()
	name := filepath.Join(h.dir, "lonely")
	text := "tree " + h.must("rev-parse", first+"^{tree}") + "\nparent " + strings.Repeat("1", 40) + "\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestBomb: a small pack that says that it unpacks to more than this machine has
// takes no memory.
func TestBomb(t *testing.T) {
	h := newHosted(t)
	for name, want := range map[string]string{"huge": "alloc", "small": "inflat"} {
		size := uint64(64)
		if name == "huge" {
			size = 8 << 30
		}
		if said := h.send(bomb(t, size), strings.Repeat("2", 40), "refs/heads/"+name); !strings.Contains(said, want) || h.at(name) != "" {
			t.Errorf("%s: want it refused by a word of %q: %q", name, want, said)
		}
	}
	if found := h.left(); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}

// bomb is a pack with one tree, which says its size and holds less.
func bomb(t *testing.T, size uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x01")
	const tree = 2
	head := byte(tree<<4 | size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(head | 0x80)
		head = byte(size & 127)
	}
	b.WriteByte(head)
	z := zlib.NewWriter(&b)
	if _, err := z.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

// raw pushes one object, and nothing that it needs, in words of its own.
func (h *hosted) raw(new, ref string) string {
	h.t.Helper()
	name := filepath.Join(h.dir, "one")
	pack := exec.CommandContext(h.t.Context(), "sh", "-c", "echo "+new+" | git pack-objects -q --stdout >"+name)
	pack.Dir = filepath.Join(h.dir, "work")
	if out, err := pack.CombinedOutput(); err != nil {
		h.t.Fatalf("%v %s", err, out)
	}
	objects, err := os.ReadFile(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.send(objects, new, ref)
}

// send pushes a pack in words of its own.
func (h *hosted) send(objects []byte, new, ref string) string {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := json.Marshal(h.order)
	if err != nil {
		h.t.Fatal(err)
	}
	line := strings.Repeat("0", 40) + " " + new + " " + ref + "\x00 report-status"
	c := exec.CommandContext(h.t.Context(), self, "push")
	c.Env = append(os.Environ(), "CLOISTER_TEST_GIT="+string(text))
	c.Stdin = strings.NewReader(fmt.Sprintf("%04x%s0000%s", len(line)+4, line, objects))
	out, err := c.CombinedOutput()
	h.t.Logf("%s: %v", ref, err)
	return string(out)
}
