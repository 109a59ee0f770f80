package guardian

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/livefiles"
	"cloister/guardian/sessionctx"
	"cloister/internal/durable"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/policyset"
)

// maxSessionAnswers bounds the answers with the scope session.
const maxSessionAnswers = config.MaxDecisions

// keepAnswer makes an answer part of policy, as long as its scope says. The
// scope once is the queue's own: those who wait get it.
func (g *guardian) keepAnswer(ctx context.Context, i approval.Item, r approval.Reply) error {
	if r.Scope == approval.Once {
		return nil
	}
	d := config.Decision{
		ID: i.ID, Answer: config.Answered(effectOf(r).String()), Kind: config.DecisionKind(i.Kind), Subject: i.Subject,
		At: time.Now().UTC().Truncate(time.Second), By: r.By, Why: i.Reason, Shown: i.Title, Session: i.Session,
	}
	if r.Subject != "" {
		d.Subject = r.Subject
	}
	if i.Kind == approval.Hostexec {
		d.Subject = i.Grant
	}
	switch r.Scope {
	case approval.Session:
		return g.answerSession(ctx, i.SessionID, d)
	case approval.Project:
		return g.remember(ctx, i.Project, d)
	case approval.Global:
		return g.remember(ctx, "", d)
	case approval.Once:
	}
	return fmt.Errorf("remember answer: unknown scope %q", r.Scope)
}

// answerSession puts an answer among the session's own words.
func (g *guardian) answerSession(ctx context.Context, id string, d config.Decision) error {
	return g.changeSessionRules(ctx, id, func(w *policyset.SessionRules) error {
		if len(w.Answers) >= maxSessionAnswers {
			return fmt.Errorf("remember answer: the session has %d already", len(w.Answers))
		}
		w.Answers = append(slices.Clone(w.Answers), d)
		return nil
	})
}

// changeSessionRules changes what one session adds to the common policy.
func (g *guardian) changeSessionRules(ctx context.Context, id string,
	change func(*policyset.SessionRules) error) error {
	g.mu.Lock()
	l := g.live[id]
	g.mu.Unlock()
	if l == nil {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeOver, Message: "answer: the session has ended"}
	}
	if err := g.storeSessionRules(ctx, l, change); err != nil {
		return err
	}
	l.recheck(ctx)
	l.catchUp()
	g.review()
	g.bus.Publish(api.EventDecisions, struct{}{})
	return nil
}

// catchUp asks the shim for the statements about files and programs that it was not asked for while the session was
// allowed nothing.
func (l *live) catchUp() {
	l.g.reloading.RLock() // so that no older files come after a reload's
	defer l.g.reloading.RUnlock()
	if text := l.refile(livefiles.Of(l.g.policies.Current().Input().Cedar)); text != "" {
		_ = l.send(api.Frame{Type: api.FrameNotice, Notice: text}) // it is on record
	}
}

// storeSessionRules puts them in force once they are recorded, and after the shim has what
// of them another guardian must know.
func (g *guardian) storeSessionRules(ctx context.Context, l *live, edit func(*policyset.SessionRules) error) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	w := l.rules
	if err := edit(&w); err != nil {
		return err
	}
	next, scope, clash, err := g.policies.Next(g.policies.Current(), l.Info.Project, w)
	if err := errors.Join(clash, err); err != nil {
		return err
	}
	if err := g.recordSessionPolicy(ctx, l, next, nil); err != nil {
		return err
	}
	if err := l.passNarrow(w); err != nil {
		return err
	}
	l.rules = w
	change{live: l, next: next, scope: scope}.rule()
	return nil
}

// recordSessionPolicy records what rules a session from here on; clash is why that forbids all.
func (g *guardian) recordSessionPolicy(ctx context.Context, l *live, now *policy.Snapshot, clash error) error {
	e := sessionctx.Frame(l.Info, now.Digest())
	e.Kind, e.Action, e.Verdict = audit.PolicyLoad, "load", policy.Allow.String()
	if clash != nil {
		e.Verdict = policy.Deny.String()
		e.Reason = strings.ReplaceAll(clash.Error(), "\n", "; ") + "; nothing is allowed until its own rules are changed"
	}
	return g.records.Append(ctx, e)
}

// remember writes an answer to its file, and puts it in force.
func (g *guardian) remember(ctx context.Context, project string, d config.Decision) error {
	if !utf8.ValidString(project) {
		return api.BadRequest("remember answer: the project's path is not text: say scope session")
	}
	return g.rewrite(ctx, func(files []config.Decisions) (config.Decisions, error) {
		file := config.Decisions{Version: 1, Project: project, File: config.DecisionsFile(g.policies.Dir, project)}
		for _, f := range files {
			if f.Project == project {
				file = f
			}
		}
		if len(file.Decisions) >= config.MaxDecisions {
			return file, api.BadRequest("remember answer: %s holds %d already: cloister approvals undo ID, or say scope session",
				file.File, len(file.Decisions))
		}
		file.Decisions = append(slices.Clone(file.Decisions), d)
		return file, nil
	})
}

// rewrite changes one file of remembered answers. The files are read anew: a
// person may have edited them.
func (g *guardian) rewrite(ctx context.Context, change func([]config.Decisions) (config.Decisions, error)) error {
	if err := g.rewriteLocked(ctx, change); err != nil {
		return err
	}
	g.review()
	g.bus.Publish(api.EventDecisions, struct{}{})
	return nil
}

func (g *guardian) rewriteLocked(ctx context.Context, change func([]config.Decisions) (config.Decisions, error)) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	before, err := config.LoadDecisions(g.policies.Dir)
	if err != nil {
		return fmt.Errorf("remember answer: %w", err)
	}
	file, err := change(before)
	if err != nil {
		return err
	}
	// As it will be read, with the lines that things stand on.
	if file, err = config.ParseDecisions(file.File, file.Format(), file.Project != ""); err != nil {
		return fmt.Errorf("remember answer: %w", err)
	}
	after := slices.DeleteFunc(slices.Clone(before), func(f config.Decisions) bool { return f.File == file.File })
	after = append(after, file)
	// First whether it compiles: what cannot be in force is not written.
	next, err := g.policies.Current().Answered(after)
	if err != nil {
		return err
	}
	if err := writeDecisions(file); err != nil {
		return err
	}
	return g.install(ctx, next)
}

func writeDecisions(file config.Decisions) error {
	if err := os.MkdirAll(filepath.Dir(file.File), 0o700); err != nil {
		return fmt.Errorf("remember answer: %w", err)
	}
	if err := durable.WriteFile(file.File, file.Format(), 0o600); err != nil {
		return fmt.Errorf("remember answer: %w", err)
	}
	return nil
}

// review ends questions that the policy answers by now.
func (g *guardian) review() {
	g.queue.Review(func(i approval.Item) bool {
		g.mu.Lock()
		l := g.live[i.SessionID]
		g.mu.Unlock()
		return l != nil && l.settled(i)
	})
}

// Remembered is the answer that holds for a subject: a deny before an allow.
func (l *live) Remembered(kind config.DecisionKind, subject string) (config.Decision, bool) {
	var all []config.Decision
	for _, f := range l.g.policies.Current().Answers() {
		if f.Project == "" || f.Project == l.Info.Project {
			all = append(all, f.Decisions...)
		}
	}
	l.g.reloading.RLock()
	all = append(all, l.rules.Answers...)
	l.g.reloading.RUnlock()
	all = slices.DeleteFunc(all, func(d config.Decision) bool {
		return d.Kind != kind || d.Subject != subject
	})
	for _, d := range all {
		if d.Answer == config.AnsweredDeny {
			return d, true
		}
	}
	if len(all) > 0 {
		return all[0], true
	}
	return config.Decision{}, false
}

// decisions lists what is remembered, the session's own answers too.
func (g *guardian) decisions() []api.Decision {
	out := []api.Decision{}
	for _, f := range g.policies.Current().Answers() {
		scope := approval.Global
		if f.Project != "" {
			scope = approval.Project
		}
		for _, d := range f.Decisions {
			out = append(out, decision(d, scope, f.Project))
		}
	}
	g.reloading.RLock()
	defer g.reloading.RUnlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.live {
		for _, d := range l.rules.Answers {
			out = append(out, decision(d, approval.Session, l.Info.Project))
		}
	}
	slices.SortStableFunc(out, func(a, b api.Decision) int { return b.At.Compare(a.At) })
	return out
}

func (g *guardian) getDecisions(http.ResponseWriter, *http.Request) (any, error) {
	return g.decisions(), nil
}

// postUndo takes a remembered answer back.
func (g *guardian) postUndo(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.ApprovalReply](r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	for _, d := range g.decisions() {
		if d.ID == id {
			return d, g.undo(context.WithoutCancel(r.Context()), d, whoAnswers(r, req.Via))
		}
	}
	return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
		Message: fmt.Sprintf("undo: no remembered answer %q", id), Hints: []string{"see: cloister approvals list --all"}}
}

// undo records, then removes.
func (g *guardian) undo(ctx context.Context, d api.Decision, by string) error {
	if err := g.records.Append(ctx, audit.Event{
		Kind: audit.ApprovalDecision, Action: "undo", Resource: d.Subject, Session: d.Session, Project: d.Project,
		Reason: fmt.Sprintf("approval %s: %s of scope %s taken back by %s", d.ID, d.Answer, d.Scope, by),
		Policy: g.policies.Current().Snapshot().Digest(),
	}); err != nil {
		return api.Unrecorded("undo", err)
	}
	if d.Scope == string(approval.Session) {
		return g.undoInSession(ctx, d.ID)
	}
	return g.rewrite(ctx, func(files []config.Decisions) (config.Decisions, error) {
		for _, f := range files {
			if less, had := f.Without(d.ID); had {
				return less, nil
			}
		}
		return config.Decisions{}, errors.New("undo: the answer is gone already")
	})
}

func (g *guardian) undoInSession(ctx context.Context, id string) error {
	g.reloading.RLock()
	var owner string
	g.mu.Lock()
	for _, l := range g.live {
		if slices.ContainsFunc(l.rules.Answers, func(d config.Decision) bool { return d.ID == id }) {
			owner = l.Info.ID
		}
	}
	g.mu.Unlock()
	g.reloading.RUnlock()
	return g.changeSessionRules(ctx, owner, func(w *policyset.SessionRules) error {
		w.Answers = slices.DeleteFunc(slices.Clone(w.Answers), func(d config.Decision) bool { return d.ID == id })
		return nil
	})
}

// decision is a remembered answer in the words of the API, rendered.
func decision(d config.Decision, scope approval.Scope, project string) api.Decision {
	out := api.Decision{
		ID: termsafe.Text(d.ID), Answer: string(d.Answer), Kind: string(d.Kind), Subject: termsafe.Text(d.Subject),
		Scope:   string(scope),
		Project: termsafe.Text(project), Session: termsafe.Text(d.Session), At: d.At, By: termsafe.Text(d.By),
		Why: termsafe.Text(d.Why), Shown: termsafe.Text(d.Shown),
	}
	if d.Place.File != "" {
		out.Place = fmt.Sprintf("%s:%d", d.Place.File, d.Place.Line)
	}
	return out
}
