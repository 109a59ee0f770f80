package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Push is what would go out: pure data.
type Push struct {
	Remote  Remote
	Updates []Update
	Bytes   int64 // of its objects, as they came
}

// Commit is one commit that the remote does not have.
type Commit struct{ ID, Author, Date, Subject string }

// File is one changed file.
type File struct {
	Path        string
	Plus, Minus int // lines; -1 for a file that is no text
	Kind        string
}

// Branch is the short name of what an update changes.
func (u *Update) Branch() string { return strings.TrimPrefix(u.Ref, "refs/heads/") }

// Argv is an update in the words that rules are held against: git push
// [--force] [--delete] URL BRANCH.
func (p *Push) Argv(u *Update) []string {
	argv := []string{"git", "push"}
	if u.Force {
		argv = append(argv, "--force")
	}
	if u.New == zero {
		argv = append(argv, "--delete")
	}
	return append(argv, p.Remote.URL, u.Branch())
}

// Digest names one push: what one answer is bound to.
func (p *Push) Digest(session, project, policy, nonce string) string {
	type update struct {
		Ref, Old, New string
		Force         bool
	}
	v := struct {
		Version                              int
		URL, Session, Project, Policy, Nonce string
		Updates                              []update
	}{1, p.Remote.URL, session, project, policy, nonce, nil}
	for _, u := range p.Updates {
		v.Updates = append(v.Updates, update{u.Ref, u.Old, u.New, u.Force})
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "" // strings and numbers: JSON can say them
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// describe looks at what would go out.
func (o *pushing) describe(ctx context.Context) (*Push, error) {
	p := &Push{Remote: o.d.remote, Bytes: o.bytes()}
	for _, u := range o.commands.updates {
		if err := o.look(ctx, &u); err != nil {
			return nil, err
		}
		p.Updates = append(p.Updates, u)
	}
	return p, nil
}

// bytes is what its objects take.
func (o *pushing) bytes() (sum int64) {
	packs, _ := filepath.Glob(filepath.Join(o.q, "pack", "*")) // of a folder of ours
	for _, p := range packs {
		if fi, err := os.Stat(p); err == nil {
			sum += fi.Size()
		}
	}
	return sum
}

func (o *pushing) look(ctx context.Context, u *Update) error {
	if was, is := o.known[u.Ref]; u.Old != zero && was != u.Old || u.Old == zero && is {
		return fmt.Errorf("%s is not what the remote has: fetch first", u.Ref)
	}
	if u.New == zero {
		u.Force = true
		n, err := o.count(ctx, u.Old)
		u.Lost = n
		return err
	}
	kind, err := o.git(ctx, "cat-file", "-t", u.New)
	if err != nil {
		return err
	}
	switch kind = strings.TrimSpace(kind); {
	case kind == "commit":
	case kind == "tag" && strings.HasPrefix(u.Ref, "refs/tags/"):
	default:
		return fmt.Errorf("%s would be a %s", u.Ref, kind)
	}
	if err := o.compare(ctx, u); err != nil {
		return err
	}
	if u.Force && o.d.remote.project {
		was, err := o.git(ctx, "rev-parse", "--verify", "--quiet", brought(u.Ref))
		u.Own = err == nil && strings.TrimSpace(was) == u.Old
	}
	if err := o.commits(ctx, u); err != nil {
		return err
	}
	return o.files(ctx, u)
}

// compare reports whether something of the remote would be lost.
func (o *pushing) compare(ctx context.Context, u *Update) error {
	if u.Old == zero {
		return nil
	}
	if _, err := o.git(ctx, "merge-base", "--is-ancestor", u.Old, u.New); err != nil {
		u.Force = true // or git could not say: then it is shown as the worse
	}
	u.Force = u.Force || strings.HasPrefix(u.Ref, "refs/tags/")
	if !u.Force {
		return nil
	}
	n, err := o.count(ctx, u.Old, "--not", u.New)
	u.Lost = n
	return err
}

func (o *pushing) count(ctx context.Context, revs ...string) (int, error) {
	said, err := o.git(ctx, append([]string{"rev-list", "--count"}, append(revs, "--")...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(said))
}

// commits lists those that the remote does not have.
func (o *pushing) commits(ctx context.Context, u *Update) error {
	said, err := o.git(ctx, "rev-list", "--count", u.New, "--not", "--all", "--")
	if err != nil {
		return err
	}
	if u.Fresh, err = strconv.Atoi(strings.TrimSpace(said)); err != nil {
		return err
	}
	said, err = o.git(ctx, "log", "-z", "--no-color", "--no-show-signature", "--encoding=UTF-8", "--no-notes",
		"--no-mailmap", "--max-count="+strconv.Itoa(MaxCommits),
		"--format=%H%x00%an <%ae>%x00%cI%x00%s", u.New, "--not", "--all", "--")
	if err != nil {
		return err
	}
	f := strings.Split(strings.TrimSuffix(said, "\x00"), "\x00")
	for ; len(f) >= 4; f = f[4:] {
		u.Commits = append(u.Commits, Commit{f[0], f[1], f[2], f[3]})
	}
	return nil
}

const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// base is what the files are compared with: what stands there, or where the new
// branch left what the remote has.
func (o *pushing) base(ctx context.Context, u *Update) string {
	if u.Old != zero {
		return u.Old
	}
	args := []string{"merge-base", u.New}
	for ref, oid := range o.known {
		if strings.HasPrefix(ref, "refs/heads/") && len(args) < 500 {
			args = append(args, oid)
		}
	}
	if len(args) > 2 {
		if said, err := o.git(ctx, args...); err == nil {
			return strings.TrimSpace(said)
		}
	}
	return emptyTree
}

// files is what the update changes in the files.
func (o *pushing) files(ctx context.Context, u *Update) error {
	diff := func(form string) ([]string, error) {
		said, err := o.git(ctx, "diff-tree", "-r", form, "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
			o.base(ctx, u)+"^{tree}", u.New+"^{tree}", "--")
		return strings.Split(strings.TrimSuffix(said, "\x00"), "\x00"), err
	}
	numbers, err := diff("--numstat")
	if err != nil {
		return err
	}
	raw, err := diff("--raw")
	if err != nil {
		return err
	}
	kinds := map[string]string{}
	for ; len(raw) >= 2; raw = raw[2:] {
		kinds[raw[1]] = kindOf(raw[0])
	}
	for _, line := range numbers {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			continue // nothing at all
		}
		file := File{Path: f[2], Plus: lines(f[0]), Minus: lines(f[1]), Kind: kinds[f[2]]}
		u.Changed++
		u.Plus, u.Minus = u.Plus+max(0, file.Plus), u.Minus+max(0, file.Minus)
		if len(u.Files) < MaxFiles {
			u.Files = append(u.Files, file)
		}
		if o.d.remote.project && file.Kind != deleted {
			u.There = append(u.There, file.Path)
		}
	}
	return nil
}

func lines(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// deleted is the kind of a file that is not there afterwards.
const deleted = "deleted"

// kindOf reads a line of --raw, ":OLDMODE NEWMODE OLD NEW STATUS".
func kindOf(raw string) string {
	f := strings.Fields(strings.TrimPrefix(raw, ":"))
	if len(f) != 5 {
		return ""
	}
	switch {
	case f[4] == "D":
		return deleted
	case f[1] == "120000":
		return "symbolic link"
	case f[1] == "160000":
		return "submodule"
	case f[1] == "100755" && f[0] != "100755":
		return "now executable"
	case f[4] == "A":
		return "new"
	}
	return ""
}
