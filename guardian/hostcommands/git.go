package hostcommands

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"cloister/approval"
	"cloister/config"
	"cloister/egress"
	"cloister/git"
	"cloister/guardian/court"
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
	if url == git.ProjectURL && h.s.Info.Workspace == string(config.WorkspaceGit) {
		return w.serveProject(ctx, verb)
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
	// What a person forbade is refused as that, wherever it would go.
	if v := h.s.Scope.Load().Host.JudgeGit(argv, w.said); v.Effect == policy.Deny && v.Rule != "" {
		return refusedBy(w.decide(ctx, court.Case{Policy: w.ruling(v)}, remote.URL))
	}
	if err := w.reachable(verb); err != nil {
		return h.refuse(ctx, err)
	}
	if r := w.decide(ctx, w.contactCase(verb), remote.URL); !r.Allowed() {
		return refusedBy(r)
	}
	at, addrs, err := w.vetted(ctx)
	if err != nil {
		return h.refuse(ctx, err)
	}
	depot, err := h.s.service.o.Depots.Open(ctx, h.s.Info.Project, remote)
	if err != nil {
		return h.refuse(ctx, &hostexec.Refused{Reason: err.Error()})
	}
	depot.Keep(at, addrs)
	began := time.Now()
	// While git runs for a cloister, nothing that comes of it is a person.
	h.s.service.Began()
	defer h.s.service.Ended()
	if verb == "push" {
		err = w.push(ctx, depot, w.decidePush, true)
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
// which anyone can listen, a folder of this machine, and a host that is near.
func (w *gitwork) reachable(verb string) error {
	rules := w.s.Scope.Load().Host
	if w.remote.Secure() && !w.remote.Near || rules.NamesRemote(verb, w.remote.URL) ||
		rules.NamesRemote("push", w.remote.URL) {
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
// after the leave: a name that no one allowed is not looked up.
func (w *gitwork) vetted(ctx context.Context) (authority.Authority, []netip.Addr, error) {
	var none authority.Authority
	if w.remote.Scheme == "file" {
		return none, nil, nil
	}
	at, between, err := w.s.service.o.Depots.Reach(ctx, w.remote)
	if err != nil {
		return none, nil, &hostexec.Refused{Reason: fmt.Sprintf("%s: %v", w.remote.URL, err)}
	}
	// It was near by its spelling alone, so that a rule names it.
	if _, literal := w.remote.At.Addr(); w.remote.Near || literal && w.named() {
		return none, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := egress.Addresses(ctx, w.s.service.o.Policies.Current().Config().Proxy.Hosts, &net.Resolver{}, at)
	if err == nil {
		return at, addrs, nil
	}
	if egress.Forbidden(err) {
		return none, nil, &hostexec.Refused{
			Reason: fmt.Sprintf("%s: %v", w.remote.URL, err),
			Hint: fmt.Sprintf("if you know that server, in config.yaml: proxy: {hosts: {%q: \"ADDRESS:%d\"}}", at.Host(),
				at.Port()),
		}
	}
	if between {
		return none, nil, nil // the proxy of the person's own configuration looks it up
	}
	return none, nil, &hostexec.Refused{Reason: fmt.Sprintf("%s: %v", w.remote.URL, err)}
}

// named reports whether a rule names the remote as it stands.
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
	return w.apart(w.s.host().Foreign)
}

// apart refuses a repository of this machine that lies in one of these folders, which a cloister can write.
func (w *gitwork) apart(writable []string) error {
	real, err := realpath.Of(w.remote.Path)
	if err != nil {
		return &hostexec.Refused{Reason: fmt.Sprintf("%s: %v", w.remote.URL, err)}
	}
	for _, dir := range writable {
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

// ruling is a verdict of the rules as the policy of a case.
func (w *gitwork) ruling(v policy.Verdict) func() court.Ruling {
	return func() court.Ruling { return court.Ruling{Verdict: v, Digest: w.s.Digest()} }
}

func unrecorded(err error) hostexec.Exit {
	return hostexec.Exit{Status: statusRefused, Refused: court.Unrecorded(err)}
}

func refusedBy(r court.Ruling) hostexec.Exit {
	return hostexec.Exit{Status: statusRefused, Refused: r.FullReason(), Hints: r.Hints}
}

// contactCase asks whether the remote is spoken with at all: even a question to it carries
// the person's credentials, and its address.
func (w *gitwork) contactCase(verb string) court.Case {
	url, grant := w.remote.URL, w.grant()
	final := false // the rules decide without what is remembered
	return court.Case{
		Policy: func() court.Ruling {
			var v policy.Verdict
			v, final = w.contactVerdict(verb)
			return court.Ruling{Verdict: v, Digest: w.s.Digest()}
		},
		Remembered: func(v policy.Verdict) (policy.Verdict, bool) {
			if final {
				return v, false
			}
			d, ok := w.s.Remembered(config.DecisionHostexec, grant)
			if !ok {
				return v, false
			}
			return rememberedVerdict(d), true
		},
		Question: func(policy.Verdict) (approval.Ask, error) {
			return w.question(approval.Ask{
				Subject: "git fetch " + url, Title: "fetch with your git's credentials from " + url, Digest: grant, Grant: grant,
				Marks:   termsafe.Marks(url),
				Wide:    "every fetch from exactly this remote, of any of its branches",
				Details: []approval.Detail{{Label: "remote", Text: termsafe.Quote(url)}},
			}), nil
		},
	}
}

// contactVerdict is what the rules say of speaking with the remote; final reports that no
// remembered answer changes it.
func (w *gitwork) contactVerdict(verb string) (v policy.Verdict, final bool) {
	rules, url := w.s.Scope.Load().Host, w.remote.URL
	fetch := rules.JudgeGit([]string{"git", "fetch", url}, w.said)
	if fetch.Effect == policy.Deny && fetch.Rule != "" {
		return fetch, true
	}
	if verb == "push" {
		push := rules.JudgeGit([]string{"git", "push", url}, w.said)
		switch {
		case push.Effect == policy.Deny && push.Rule != "":
			return push, true
		case rules.NamesRemote("push", url):
			return policy.Verdict{
				Effect: policy.Allow, Rule: "program git push " + url,
				Reason: "a rule names this remote; what is pushed is judged by itself",
			}, true
		case fetch.Effect == policy.Deny && (rules.MayPush(url) || push.Effect != policy.Deny):
			return policy.Verdict{
				Effect: policy.Ask, Rule: cmp.Or(push.Rule, "git push"),
				Reason: "a rule lets pushes be asked about, and none names this remote",
			}, false
		case fetch.Effect == policy.Deny:
			return push, true
		}
	}
	return fetch, false
}

func rememberedVerdict(d config.Decision) policy.Verdict {
	v := policy.Verdict{Rule: "approval " + d.ID, Reason: "a person denied exactly this: approval " + d.ID}
	if d.Answer == config.AnsweredAllow {
		v.Effect, v.Reason = policy.Allow, "a person allowed exactly this: approval "+d.ID
	}
	return v
}

// grant is what a remembered answer about a remote is bound to.
func (w *gitwork) grant() string {
	sum := sha256.Sum256([]byte("git fetch\x00" + w.remote.URL))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// question completes a question about git, and notifies who waits inside.
func (w *gitwork) question(a approval.Ask) approval.Ask {
	a.Kind = approval.Hostexec
	if w.said != "" {
		a.Details = append(a.Details, approval.Detail{Label: "typed inside (unverified)", Text: termsafe.Quote(w.said)})
	}
	if w.s.Queue.Watched(w.s.Info.ID) {
		_ = w.conn.Notice("a person is asked: " + a.Title) // a caller that is gone is noticed by its end
	}
	return a
}
