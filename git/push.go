package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Bounds of one push.
const (
	MaxUpdates = 32
	maxPack    = 2 << 30 // bytes of the pack on the wire
	// MaxCommits and MaxFiles bound what of each update is shown.
	MaxCommits = 200
	MaxFiles   = 200
)

// zero is the name of no object.
const zero = "0000000000000000000000000000000000000000"

// Decide says yes to a push, or why not: its error is for the one who pushes.
type Decide func(ctx context.Context, p *Push) error

// Push serves one git push from inside. The objects lie apart, checked, while
// decide looks; after its yes exactly they are pushed.
func (d *Depot) Push(ctx context.Context, in io.Reader, out io.Writer, decide Decide) (err error) {
	if err := d.current(ctx); err != nil {
		return err
	}
	known, err := d.refs(ctx)
	if err != nil {
		return err
	}
	if err := advertise(out, known); err != nil {
		return err
	}
	r := bufio.NewReaderSize(in, maxPacket)
	cmds, err := readCommands(r)
	if err != nil || len(cmds.updates) == 0 {
		return err
	}
	q, err := os.MkdirTemp(d.dir, incoming)
	if err != nil {
		return fmt.Errorf("take objects: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(q)) }()
	one := &pushing{d: d, q: q, env: []string{"GIT_OBJECT_DIRECTORY=" + q,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + d.dir + "/objects"}, known: known, commands: cmds}
	report := one.serve(ctx, r, decide)
	if err := report.send(out, cmds); err != nil {
		return err
	}
	if report.failed != nil && cmds.status {
		return &Told{report.failed}
	}
	return report.failed
}

// Told is a push that failed, of which the one who pushes knows why.
type Told struct{ err error }

func (t *Told) Error() string { return t.err.Error() }
func (t *Told) Unwrap() error { return t.err }

// current refreshes the depot within the time that a fetch has.
func (d *Depot) current(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	return d.refresh(ctx)
}

// refs is what stands at the remote, by name.
func (d *Depot) refs(ctx context.Context) (map[string]string, error) {
	said, err := d.local(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(said) {
		if oid, ref, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			refs[ref] = oid
		}
	}
	return refs, nil
}

// pushing is one push on its way.
type pushing struct {
	d        *Depot
	q        string   // where its objects lie
	env      []string // for a git that sees them
	known    map[string]string
	commands commands
}

// report is what the pushing client receives.
type report struct {
	unpack  string            // "ok", or why not
	refused map[string]string // by ref: why
	failed  error
}

func refuseAll(unpack string, c commands, err error) report {
	r := report{unpack: unpack, refused: map[string]string{}, failed: err}
	for _, u := range c.updates {
		r.refused[u.Ref] = err.Error()
	}
	return r
}

func (o *pushing) serve(ctx context.Context, in *bufio.Reader, decide Decide) report {
	if err := o.take(ctx, in); err != nil {
		return refuseAll("the objects are not as they should be", o.commands, err)
	}
	p, err := o.describe(ctx)
	if err != nil {
		return refuseAll("ok", o.commands, err)
	}
	if err := decide(ctx, p); err != nil {
		return refuseAll("ok", o.commands, err)
	}
	return o.send(ctx, p)
}

// take reads the objects, checks each, and that nothing is missing.
func (o *pushing) take(ctx context.Context, in *bufio.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	var news []string
	for _, u := range o.commands.updates {
		if u.New != zero {
			news = append(news, u.New)
		}
	}
	if len(news) == 0 {
		return nil // nothing but deletions has no pack
	}
	c := o.d.command(ctx, plain(o.env), "index-pack", "--stdin", "--fix-thin", "--strict",
		"--max-input-size="+strconv.Itoa(maxPack))
	var said capped
	c.Stderr = &said
	bounds := ofObjects()
	if err := feed(c, in, &bounds); err != nil {
		return &Failed{said: said.String(), err: err}
	}
	_, err := o.git(ctx, append(append([]string{"rev-list", "--objects", "--quiet"}, news...), "--not", "--all", "--")...)
	return err
}

// git looks at the depot with the objects that came.
func (o *pushing) git(ctx context.Context, args ...string) (string, error) {
	return o.d.look(ctx, o.env, nil, args...)
}

// send pushes what was approved, and only onto what was shown.
func (o *pushing) send(ctx context.Context, p *Push) report {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"}
	if o.commands.atomic {
		args = append(args, "--atomic")
	}
	if o.d.remote.project {
		args = append(args, "--receive-pack="+receiver)
	}
	var specs []string
	for _, u := range p.Updates {
		old, source := u.Old, u.New
		if old == zero {
			old = "" // it must not exist
		}
		if source == zero {
			source = ""
		}
		args = append(args, "--force-with-lease="+u.Ref+":"+old)
		specs = append(specs, source+":"+u.Ref)
	}
	args = append(append(args, "--", o.d.remote.URL), specs...)
	said, err := run(o.d.command(ctx, append(append([]string{}, o.d.env...), o.env...), args...))
	rep := report{unpack: "ok", refused: map[string]string{}}
	done := pushed(said)
	var kept []Update
	for i, u := range p.Updates {
		word, told := done[u.Ref]
		switch {
		case told && word == "":
			kept = append(kept, u)
		case told:
			p.Updates[i].Stayed, rep.refused[u.Ref] = true, word
		case err != nil:
			rep.refused[u.Ref] = err.Error()
		default:
			rep.refused[u.Ref] = "the remote did not say what became of it"
		}
	}
	if len(rep.refused) > 0 {
		rep.failed = fmt.Errorf("push to %s: %w", o.d.remote.URL, errors.Join(errors.New(firstOf(p, rep.refused)), err))
	}
	if err := o.keep(context.WithoutCancel(ctx), kept); err != nil && rep.failed == nil {
		rep.failed = err // the remote has it; the next push looks there anew
	}
	return rep
}

func firstOf(p *Push, refused map[string]string) string {
	for _, u := range p.Updates {
		if why, is := refused[u.Ref]; is {
			return u.Ref + ": " + why
		}
	}
	return ""
}

// pushed reads what git push --porcelain says of each ref: "" for done.
func pushed(said string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(said) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 3 || len(f[0]) != 1 {
			continue
		}
		_, ref, _ := strings.Cut(f[1], ":")
		if f[0] != "!" {
			out[ref] = ""
			continue
		}
		why := f[2]
		if strings.Contains(why, "stale info") {
			why = "the remote is not as it was shown any more: fetch, then push again"
		}
		out[ref] = why
	}
	return out
}

// keep makes the depot look as the remote does now. What it cannot is fetched the
// next time.
func (o *pushing) keep(ctx context.Context, done []Update) error {
	if len(done) == 0 {
		return nil
	}
	release, err := o.d.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := move(o.q, o.d.dir+"/objects"); err != nil {
		return fmt.Errorf("keep objects: %w", err)
	}
	var b strings.Builder
	for _, u := range done {
		if u.New == zero {
			fmt.Fprintf(&b, "delete %s\n", u.Ref)
		} else {
			fmt.Fprintf(&b, "update %s %s\n", u.Ref, u.New)
			if o.d.remote.project {
				fmt.Fprintf(&b, "update %s %s\n", brought(u.Ref), u.New)
			}
		}
	}
	_, err = o.d.local(ctx, strings.NewReader(b.String()), "update-ref", "--stdin")
	return err
}
