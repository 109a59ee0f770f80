// Package notify tells a person who looks at no screen of Cloister's that questions wait.
//
// The promise: the desktop and what config.yaml's notify names, a program or an address,
// get words of Cloister's own with a destination at most, and no other text of an agent's;
// nothing waits for them; an answer is never taken from them, since a question is answered
// where all of it is seen. As long as the program or the address takes what it is given,
// the person counts as one who can be reached, so that questions wait.
//
// It keeps no questions, and knows no rule.
//
// Most readers want [New].
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cloister/approval"
	"cloister/config"
	"cloister/host/resolve"
	"cloister/ui/desktop"
)

const (
	// within bounds one message, and between is the least time from one to the next: a
	// chat or a phone is no log.
	within, between = 10 * time.Second, time.Second
	// most is how many messages wait; the oldest gives way.
	most = 32
)

// Options of New.
type Options struct {
	Bus string // the session bus of the person's desktop; "" for none
	// Config is what config.yaml says now.
	Config func() config.Notify
	// Env is the environment of the program, which Resolver finds.
	Env      []string
	Resolver resolve.Now
	Log      *slog.Logger
}

// Notifier is all that a guardian tells a person by itself.
type Notifier struct {
	o      Options
	bell   *desktop.Bell // nil without a session bus
	client *http.Client
	failed atomic.Bool // the last message did not arrive

	mu     sync.Mutex
	queued []Message
	wake   chan struct{}
}

// Message is what a program gets as one line of JSON, and an address as the body of a POST.
type Message struct {
	Event   string `json:"event"` // asked, or ended with what became of the question
	Outcome string `json:"outcome,omitempty"`
	ID      string `json:"id"`
	Session string `json:"session"`
	Kind    string `json:"kind"`
	Waiting int    `json:"waiting"` // how many questions wait by now
	// Text is all of it for a person. Content is the same, by the name that some services
	// read.
	Text    string `json:"text"`
	Content string `json:"content"`
}

// New makes a notifier, which Run serves.
func New(o Options) *Notifier {
	n := &Notifier{o: o, wake: make(chan struct{}, 1)}
	if o.Bus != "" {
		n.bell = desktop.New(o.Bus, o.Log)
	}
	n.client = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return n
}

// Reached reports whether a person who watches nothing learns of a question.
func (n *Notifier) Reached() bool {
	c := n.o.Config()
	return (len(c.Command) > 0 || c.Webhook != "") && !n.failed.Load()
}

// Changed takes a question that appeared or ended, when so many wait. It returns at once.
func (n *Notifier) Changed(waiting int, i approval.Item) {
	if n.bell != nil {
		n.bell.Ring(waiting, i.Session)
	}
	if c := n.o.Config(); len(c.Command) == 0 && c.Webhook == "" {
		return
	}
	m := message(waiting, i)
	n.mu.Lock()
	n.queued = append(n.queued, m)
	n.queued = n.queued[max(0, len(n.queued)-most):]
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// kinds are what a question is about, in a message that leaves this machine.
var kinds = map[approval.Kind]string{
	approval.Network: "to connect to ", approval.Request: "to send a request",
	approval.Hostexec: "to run a command on the host",
	approval.MCP:      "to use a tool", approval.Secret: "to use a secret",
	approval.File: "to open a file",
}

func message(waiting int, i approval.Item) Message {
	m := Message{Event: "asked", ID: i.ID, Kind: string(i.Kind), Waiting: waiting}
	m.Session = plain(i.Session, "a cloister")
	if !i.Settled.IsZero() {
		m.Event, m.Outcome = "ended", string(i.Outcome)
	}
	what := kinds[i.Kind]
	if i.Kind == approval.Network {
		what += plain(i.Subject, "a destination")
	}
	m.Text = fmt.Sprintf("cloister: %s asks %s. Look and answer: cloister approvals show %s", m.Session, what, i.ID)
	if m.Event == "ended" {
		m.Text = fmt.Sprintf("cloister: the question of %s, %s, is over: %s", m.Session, what, m.Outcome)
	}
	m.Content = m.Text
	return m
}

// plain is a name of letters, digits and what stands in addresses, which no chat reads as
// more than that; otherwise the words instead of it.
func plain(name, instead string) string {
	const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:[]"
	if name == "" || len(name) > 100 || strings.ContainsFunc(name,
		func(r rune) bool { return !strings.ContainsRune(all, r) }) {
		return instead
	}
	return name
}

// Run gives out messages until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	var bell sync.WaitGroup
	if n.bell != nil {
		bell.Go(func() { n.bell.Run(ctx) })
	}
	defer bell.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		for m, ok := n.next(); ok; m, ok = n.next() {
			err := n.give(ctx, m)
			n.failed.Store(err != nil)
			if err != nil {
				n.o.Log.Warn("a person was not notified of a question", "id", m.ID, "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(between):
			}
		}
	}
}

func (n *Notifier) next() (m Message, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queued) == 0 {
		return m, false
	}
	m, n.queued = n.queued[0], n.queued[1:]
	return m, true
}

// give hands one message to whatever is configured by now.
func (n *Notifier) give(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	c := n.o.Config()
	if len(c.Command) > 0 {
		if err := n.run(ctx, c.Command, append(body, '\n')); err != nil {
			return fmt.Errorf("notify.command: %w", err)
		}
	}
	if c.Webhook != "" && m.Event == "asked" { // a chat takes nothing back
		if err := n.post(ctx, c.Webhook, body); err != nil {
			return fmt.Errorf("notify.webhook: %w", err)
		}
	}
	return nil
}

func (n *Notifier) run(ctx context.Context, argv []string, input []byte) error {
	host, err := n.o.Resolver()
	if err != nil {
		return err
	}
	env := host.Environment(n.o.Env)
	program, err := host.Program(argv[0], resolve.Lookup(env))
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, program.Path, argv[1:]...)
	c.Args[0], c.Env, c.Dir, c.Stdin = argv[0], env, "/", bytes.NewReader(input)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c.Run()
}

func (n *Notifier) post(ctx context.Context, address string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return unnamed(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := n.client.Do(r)
	if err != nil {
		return unnamed(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode >= 300 {
		return fmt.Errorf("the answer is %d", answer.StatusCode)
	}
	return nil
}

// unnamed is an error without the address, which is as good as a password.
func unnamed(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
