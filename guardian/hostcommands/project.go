package hostcommands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloister/audit"
	"cloister/git"
	"cloister/guardian/court"
	"cloister/hostexec"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/workspace"
	"cloister/workspace/obeyed"
)

// ruleProject is what the record has as the rule of what passes between a session and its own project.
const ruleProject = "workspace git"

// maxBrought bounds what the project has of one session, which no one is asked about: a payload can push without end.
const maxBrought = 8 << 30

// serveProject serves the repository of the session's own project, which is how a workspace of git comes and goes. What
// it takes are branches of the session's own name, for a person to review; none that is checked out.
func (w *gitwork) serveProject(ctx context.Context, verb string) hostexec.Exit {
	remote, err := git.OfProject(w.s.Info.Project)
	if err != nil {
		w.line = "git " + verb
		return w.refuse(ctx, &hostexec.Refused{Reason: err.Error()})
	}
	w.remote = remote
	w.line = hostexec.Line([]string{"git", verb, remote.URL})
	if err := w.apart(w.s.foreign); err != nil { // the project itself this session is not shown
		return w.refuse(ctx, err)
	}
	if err := w.sound(ctx); err != nil {
		return w.refuse(ctx, &hostexec.Refused{Reason: err.Error()})
	}
	depot, err := w.s.service.o.Depots.Open(ctx, w.s.Info.Project, remote)
	if err != nil {
		return w.refuse(ctx, &hostexec.Refused{Reason: err.Error()})
	}
	began := time.Now()
	w.s.service.Began()
	defer w.s.service.Ended()
	if verb == "push" {
		var came *git.Push
		err := w.push(ctx, depot, func(ctx context.Context, p *git.Push) error {
			err := w.bring(ctx, p)
			if err == nil {
				came = p
			}
			return err
		}, false)
		if came != nil { // whether or not the one who pushed heard of it
			w.list(ctx, came)
		}
		return w.ended(ctx, began, err)
	}
	if err := w.passes(ctx, "what the project has committed"); err != nil {
		return unrecorded(err)
	}
	return w.ended(ctx, began, depot.Fetch(ctx, w.conn.Stdin(ctx), w.conn.Stdout()))
}

// sound refuses a project that a cloister, before or beside, made unfit for git to run in.
func (w *gitwork) sound(ctx context.Context) error {
	host, err := w.s.service.o.Resolver()
	if err != nil {
		return err
	}
	return workspace.Sound(ctx, host, w.remote.Path)
}

// bring lets commits into the project that are on branches of the session's own name, after the record has them.
func (w *gitwork) bring(ctx context.Context, p *git.Push) error {
	var lines []string
	for i := range p.Updates {
		u := &p.Updates[i]
		lines = append(lines, hostexec.Line(p.Argv(u)))
		if !u.MayBring(w.s.Info.Name) {
			return fmt.Errorf("%s: of this session comes back the branch %s alone", u.Ref, git.ProjectBranch(w.s.Info.Name))
		}
		if u.Force && !u.Own {
			return fmt.Errorf("%s has commits that no session brought, and they would be lost", u.Ref)
		}
	}
	w.line = strings.Join(lines, "; ")
	if sum := w.s.brought.Add(p.Bytes); sum > maxBrought {
		return fmt.Errorf("the project would have %d bytes of objects of this session, and takes %d", sum, int64(maxBrought))
	}
	if err := w.passes(ctx, "exactly these commits: "+ids(p)); err != nil {
		return errors.New(court.Unrecorded(err))
	}
	return ctx.Err()
}

// list records the files among those that came back which programs of the host run or obey once a person has them
// checked out, and has them shown at the session's end.
func (w *gitwork) list(ctx context.Context, p *git.Push) {
	runs, err := obeyed.In(w.s.Info.Project, w.s.service.o.Obeys)
	if err != nil { // what the project's own configuration names is not known
		runs = workspace.RunsByItself
		w.brings(ctx, "", termsafe.Clip(termsafe.Text(err.Error()), 1000))
	}
	for _, u := range p.Updates {
		if u.Stayed {
			continue
		}
		more, one := 0, ""
		for _, at := range u.There {
			if !runs(at) {
				continue
			}
			file := u.Branch() + ":" + at // as git show takes it
			first, counted := w.s.Tally.Brought(file)
			if counted {
				more, one = more+1, file
			}
			if first {
				w.brings(ctx, file, "")
			}
		}
		if more > 0 { // a payload that brings many hides none: the person looks at the branch
			w.brings(ctx, one, fmt.Sprintf("and %d further files of this push on %s", more-1, u.Branch()))
		}
	}
}

// brings records one of them.
func (w *gitwork) brings(ctx context.Context, file, why string) {
	e := w.s.event(audit.AutorunChanged, "bring")
	e.Resource, e.Reason = file, why
	w.s.Record(context.WithoutCancel(ctx), e)
}

// passes records what is about to pass between the session and its project.
func (w *gitwork) passes(ctx context.Context, what string) error {
	e := w.event(audit.HostexecRequest, "start")
	e.Path, e.Rule, e.Verdict, e.Reason = w.remote.URL, ruleProject, policy.Allow.String(), what
	return w.s.Records.Append(ctx, e)
}
