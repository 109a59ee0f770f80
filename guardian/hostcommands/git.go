package hostcommands

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/egress"
	"cloister/git"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/authority"
	"cloister/internal/realpath"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// statusGit is git's own status for what did not work.
const statusGit = 128

// gitwork is one fetch or push of git inside.
type gitwork struct {
	*hosted
	remote git.Remote
	said   string // what was typed inside, as the cloister tells
}

// serveGit serves git inside that speaks with a remote repository.
func (h *hosted) serveGit(ctx context.Context, req hostexec.Request, service, url string) hostexec.Exit {
	w := &gitwork{hosted: h, said: saidLine(req.Said)}
	verb := "fetch"
	if service == hostexec.GitPush {
		verb = "push"
	}
	remote, err := git.ParseRemote(url)
	if err != nil {
		h.line = "git " + verb
		return h.refuse(ctx, &hostexec.Refused{Reason: err.Error()})
	}
	w.remote = remote
	argv := []string{"git", verb, remote.URL}
	h.line = hostexec.Line(argv)
	if h.s.Info.Workspace == "none" {
		return h.refuse(ctx, &hostexec.Refused{Reason: "nothing goes out for this cloister: it has no project"})
	}
	// What a person forbade is told as that, wherever it would go.
	if v := h.s.Scope.Load().Host.JudgeGit(argv, w.said); v.Effect == hostexec.Deny && v.Rule != "" {
		exit, _ := w.recorded(ctx, v, false)
		return exit
	}
	if err := w.reachable(verb); err != nil {
		return h.refuse(ctx, err)
	}
	if exit, granted := w.contact(ctx, verb); !granted {
		return exit
	}
	at, addrs, err := w.vetted(ctx)
	if err != nil {
		return h.refuse(ctx, err)
	}
	depot, err := h.s.desk.o.Depots.Open(ctx, h.s.Info.Project, remote)
	if err != nil {
		return h.refuse(ctx, &hostexec.Refused{Reason: err.Error()})
	}
	depot.Keep(at, addrs)
	began := time.Now()
	// While git runs for a cloister, nothing that comes of it is a person.
	h.s.desk.Began()
	defer h.s.desk.Ended()
	if verb == "push" {
		err = depot.Push(ctx, h.conn.Stdin(ctx), h.conn.Stdout(), w.decide)
	} else {
		err = depot.Fetch(ctx, h.conn.Stdin(ctx), h.conn.Stdout())
	}
	return w.ended(ctx, began, err)
}

// saidLine is what was typed inside, as one line.
func saidLine(said [][]byte) string {
	words := make([]string, 0, len(said))
	for _, s := range said {
		words = append(words, string(s))
	}
	return termsafe.Clip(hostexec.Line(words), 1024)
}

// reachable holds the remote to what a person must have written down: a way on
// which anybody can listen, a folder of this machine, and a host that is near.
func (w *gitwork) reachable(verb string) error {
	rules := w.s.Scope.Load().Host
	if w.remote.Secure() && !w.remote.Near || rules.NamesRemote(verb, w.remote.URL) || rules.NamesRemote("push", w.remote.URL) {
		return w.outside()
	}
	why := "git goes out by https and ssh; another way is open"
	if w.remote.Secure() {
		why = "its host is this machine, its link or a cloud's metadata; that is open"
	}
	return &hostexec.Refused{
		Reason: fmt.Sprintf("%s: %s to a remote that a rule names as it stands", w.remote.URL, why),
		Hint:   "in config.yaml: hostexec: {manual_approve: [{program: git, args: [push, '" + w.remote.URL + "', <ref>]}]}",
	}
}

// vetted holds the host of a remote that may be spoken with to the addresses that
// connections of cloisters may go to. A person opens a private one as there: by
// proxy.hosts; and an address that a rule names as it stands by that rule. It comes
// after the leave: a name that nobody allowed is not looked up.
func (w *gitwork) vetted(ctx context.Context) (authority.Authority, []netip.Addr, error) {
	var none authority.Authority
	if w.remote.Scheme == "file" {
		return none, nil, nil
	}
	at, between, err := w.s.desk.o.Depots.Reach(ctx, w.remote)
	if err != nil {
		return none, nil, &hostexec.Refused{Reason: fmt.Sprintf("%s: %v", w.remote.URL, err)}
	}
	// It was near by its spelling alone, so that a rule names it.
	if _, literal := w.remote.At.Addr(); w.remote.Near || literal && w.named() {
		return none, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := egress.Addresses(ctx, w.s.desk.o.Policies.Current().Config().Proxy.Hosts, &net.Resolver{}, at)
	if err == nil {
		return at, addrs, nil
	}
	if egress.Forbidden(err) {
		return none, nil, &hostexec.Refused{
			Reason: fmt.Sprintf("%s: %v", w.remote.URL, err),
			Hint:   fmt.Sprintf("if you know that server, in config.yaml: proxy: {hosts: {%q: \"ADDRESS:%d\"}}", at.Host(), at.Port()),
		}
	}
	if between {
		return none, nil, nil // the proxy of the person's own configuration looks it up
	}
	return none, nil, &hostexec.Refused{Reason: fmt.Sprintf("%s: %v", w.remote.URL, err)}
}

// named says whether a rule names the remote as it stands.
func (w *gitwork) named() bool {
	rules := w.s.Scope.Load().Host
	return rules.NamesRemote("fetch", w.remote.URL) || rules.NamesRemote("push", w.remote.URL)
}

// outside refuses a repository of this machine that a cloister can write: git
// would run in it, with its hooks.
func (w *gitwork) outside() error {
	if w.remote.Scheme != "file" {
		return nil
	}
	real, err := realpath.Of(w.remote.Path)
	if err != nil {
		return &hostexec.Refused{Reason: fmt.Sprintf("%s: %v", w.remote.URL, err)}
	}
	for _, dir := range w.s.host().Foreign {
		if found, err := realpath.Of(dir); err == nil {
			dir = found
		}
		for _, path := range []string{real, w.remote.Path} {
			if path == dir || strings.HasPrefix(path, dir+"/") {
				return &hostexec.Refused{Reason: fmt.Sprintf("%s lies in %s, which the cloister can write", w.remote.URL, dir)}
			}
		}
	}
	return nil
}

// contact decides whether the remote is spoken with at all: even a question to
// it carries the person's credentials, and its address.
func (w *gitwork) contact(ctx context.Context, verb string) (hostexec.Exit, bool) {
	v, granted := w.judgeContact(ctx, verb)
	return w.recorded(ctx, v, granted)
}

// recorded writes down what was decided, before it counts.
func (w *gitwork) recorded(ctx context.Context, v hostexec.Verdict, granted bool) (hostexec.Exit, bool) {
	e := w.event(audit.HostexecRequest, "request")
	e.Rule, e.Reason, e.Verdict, e.Path = v.Rule, v.Reason, v.Effect.String(), w.remote.URL
	if err := w.s.Records.Append(ctx, e); err != nil {
		return unrecorded(err), false
	}
	if !granted {
		w.s.Tally.RefusedCommand(v)
		return refusedBy(v), false
	}
	w.s.Tally.Allowed("")
	return hostexec.Exit{}, true
}

func unrecorded(err error) hostexec.Exit {
	return hostexec.Exit{Status: statusRefused, Refused: "this could not be recorded, so it may not happen: " + err.Error()}
}

func refusedBy(v hostexec.Verdict) hostexec.Exit {
	exit := hostexec.Exit{Status: statusRefused, Refused: v.Reason}
	if v.Hint != "" {
		exit.Hints = []string{v.Hint}
	}
	return exit
}

func (w *gitwork) judgeContact(ctx context.Context, verb string) (hostexec.Verdict, bool) {
	rules, url := w.s.Scope.Load().Host, w.remote.URL
	fetch := rules.JudgeGit([]string{"git", "fetch", url}, w.said)
	if fetch.Effect == hostexec.Deny && fetch.Rule != "" {
		return fetch, false
	}
	if verb == "push" {
		push := rules.JudgeGit([]string{"git", "push", url}, w.said)
		switch {
		case push.Effect == hostexec.Deny && push.Rule != "":
			return push, false
		case rules.NamesRemote("push", url):
			return hostexec.Verdict{Effect: hostexec.Auto, Rule: "program git push " + url, Reason: "a rule names this remote; what is pushed is judged by itself"}, true
		case fetch.Effect == hostexec.Deny && (rules.MayPush(url) || push.Effect != hostexec.Deny):
			fetch = hostexec.Verdict{Effect: hostexec.Ask, Rule: cmp.Or(push.Rule, "git push"), Reason: "a rule lets pushes be asked about, and none names this remote"}
		case fetch.Effect == hostexec.Deny:
			return push, false
		}
	}
	grant := w.grant()
	if d, ok := w.s.Remembered(config.DecisionHostexec, grant); ok {
		return rememberedVerdict(d), d.Answer == config.AnsweredAllow
	}
	if fetch.Effect != hostexec.Ask {
		return fetch, fetch.Effect == hostexec.Auto
	}
	return w.ask(ctx, fetch, &approval.Ask{
		Subject: "git fetch " + url, Title: "fetch with your git's credentials from " + url, Digest: grant, Grant: grant, Marks: termsafe.Marks(url),
		Wide:    "every fetch from exactly this remote, of any of its branches",
		Details: []approval.Detail{{Label: "remote", Text: termsafe.Quote(url)}},
	})
}

func rememberedVerdict(d config.Decision) hostexec.Verdict {
	v := hostexec.Verdict{Rule: "approval " + d.ID, Reason: "a person denied exactly this: approval " + d.ID}
	if d.Answer == config.AnsweredAllow {
		v.Effect, v.Reason = hostexec.Auto, "a person allowed exactly this: approval "+d.ID
	}
	return v
}

// grant is what a remembered answer about a remote is bound to.
func (w *gitwork) grant() string {
	sum := sha256.Sum256([]byte("git fetch\x00" + w.remote.URL))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ask brings a question about git to a person.
func (w *gitwork) ask(ctx context.Context, v hostexec.Verdict, a *approval.Ask) (hostexec.Verdict, bool) {
	a.Kind, a.Reason, a.Rule, a.Policy = approval.Hostexec, v.Reason, v.Rule, w.s.Digest()
	if w.said != "" {
		a.Details = append(a.Details, approval.Detail{Label: "typed inside (unverified)", Text: termsafe.Quote(w.said)})
	}
	if w.s.Queue.Watched(w.s.Info.ID) {
		_ = w.conn.Notice("a person is asked: " + a.Title) // who is gone is noticed by its end
	}
	v.Effect = hostexec.Deny // unless a person allows it
	return answered(w.s, v, w.s.Queue.Ask(ctx, w.s.InName(a)))
}

// decide is where a push is judged, asked about and recorded. It is the only
// place that grants one.
func (w *gitwork) decide(ctx context.Context, p *git.Push) error {
	w.digest = p.Digest(w.s.Info.ID, w.s.Info.Project, w.s.Digest(), sessionctx.Nonce())
	var lines []string
	for i := range p.Updates {
		lines = append(lines, hostexec.Line(p.Argv(&p.Updates[i])))
	}
	w.line = strings.Join(lines, "; ")
	v, granted := w.judgePush(ctx, p)
	e := w.event(audit.HostexecRequest, "request")
	e.Path, e.Rule, e.Reason, e.Verdict = w.remote.URL, v.Rule, v.Reason, v.Effect.String()
	if err := w.s.Records.Append(ctx, e); err != nil {
		return errors.New(unrecorded(err).Refused)
	}
	if !granted {
		w.s.Tally.RefusedCommand(v)
		if v.Hint != "" {
			_ = w.conn.Notice("hint: " + v.Hint) // who is gone needs none
		}
		return errors.New(v.Reason)
	}
	// The rules are those of now, whatever was answered meanwhile.
	if again := w.strictest(p); again.Effect == hostexec.Deny && again.Rule != "" {
		e.Action, e.Verdict, e.Reason = "refuse", policy.Deny.String(), "the rules changed: "+again.Reason
		w.s.Record(context.WithoutCancel(ctx), e)
		return errors.New(e.Reason)
	}
	e.Action, e.Verdict, e.Reason = "start", policy.Allow.String(), "exactly these commits: "+ids(p)
	if err := w.s.Records.Append(ctx, e); err != nil {
		return errors.New(unrecorded(err).Refused)
	}
	return ctx.Err()
}

// ids names what is pushed, for the record.
func ids(p *git.Push) string {
	var out []string
	for _, u := range p.Updates {
		out = append(out, u.Ref+" "+u.Old+".."+u.New)
	}
	return strings.Join(out, ", ")
}

// strictest is what the rules say of all updates together.
func (w *gitwork) strictest(p *git.Push) hostexec.Verdict {
	rules := w.s.Scope.Load().Host
	out := hostexec.Verdict{Effect: hostexec.Auto}
	for i := range p.Updates {
		if v := rules.JudgeGit(p.Argv(&p.Updates[i]), w.said); v.Effect < out.Effect || out.Reason == "" {
			out = v
		}
	}
	return out
}

func (w *gitwork) judgePush(ctx context.Context, p *git.Push) (hostexec.Verdict, bool) {
	v := w.strictest(p)
	if v.Effect != hostexec.Ask {
		return v, v.Effect == hostexec.Auto
	}
	shown := p.Shown()
	size := 0
	for _, line := range shown {
		size += len(line[0]) + len(line[1])
	}
	if size > 4*hostexec.MaxShown {
		v.Effect = hostexec.Deny
		v.Reason = fmt.Sprintf("%s; but what it would change takes %d bytes to tell, and nobody can look at more than %d: push less at once", v.Reason, size, 4*hostexec.MaxShown)
		return v, false
	}
	a := &approval.Ask{
		Subject: w.line, Title: "push to " + w.remote.URL + ": " + summary(p), Digest: w.digest, Marks: p.Marks(),
		// Exactly these commits, and once.
		Scopes: []approval.Scope{approval.Once},
	}
	for _, line := range shown {
		a.Details = append(a.Details, approval.Detail{Label: line[0], Text: line[1]})
	}
	return w.ask(ctx, v, a)
}

// summary is a push in a few words.
func summary(p *git.Push) string {
	var out []string
	for i := range p.Updates {
		out = append(out, p.Updates[i].Brief())
	}
	return termsafe.Clip(strings.Join(out, "; "), 300)
}

// ended records how it went, and tells git inside.
func (w *gitwork) ended(ctx context.Context, began time.Time, err error) hostexec.Exit {
	exit := hostexec.Exit{}
	e := w.event(audit.HostexecResult, "end")
	e.Path = w.remote.URL
	if err != nil {
		exit.Status, exit.Refused = statusGit, termsafe.Clip(err.Error(), 2048)
		e.Action, e.Reason = "fail", exit.Refused
		if _, told := errors.AsType[*git.Told](err); told {
			exit.Refused = "" // git inside says it
		}
	}
	ms := time.Since(began).Milliseconds()
	e.ExitStatus, e.DurationMS = &exit.Status, &ms
	w.s.Record(context.WithoutCancel(ctx), e)
	return exit
}
