// Package beside starts the services of a devcontainer beside its agent: databases, caches
// and servers that a compose file names.
//
// Each service is a cloister of its own, with a gate, a session and a record of its own, of
// the agent's policy. No packet passes between them: TCP that one sends to another's name
// comes out at a socket of this process, which connects it to a port that the other listens
// on, if the compose file puts both in one network. The agent's begins when every service
// runs, and those with a health check are healthy; with the agent's end they end, and with
// this process at once.
//
// The promise: a service sees its image, its volumes, and copies of files of the project; no
// file of the host otherwise, nothing of the agent's home. Volumes are of one project. Where
// an isolation cannot keep services apart so, nothing is started.
//
// It reads no compose file and judges nothing: what it is given was judged.
//
// Most readers want [New] and [Plan.Start].
package beside

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/devcontainer/services"
	"cloister/sandbox"
	"cloister/sandbox/image"
)

// Service is one with its image.
type Service struct {
	services.Service
	Image image.Image
	Root  sandbox.Root
}

// Options are what the services of one devcontainer are.
type Options struct {
	// Agent is the agent's own service, and List those beside it, each after those that it
	// waits for.
	Agent Service
	List  []Service
	// Project is the identity of the project whose services they are, and Name what their
	// sessions' names begin with.
	Project, Name string
	// Data is where volumes are kept, and Logs where their output goes.
	Data, Logs string
	// EnvFile reads a file of variables of the project, and Copy packs a file or folder of
	// it, as what a cloister of the project would see.
	EnvFile func(rel string) ([]byte, error)
	Copy    func(rel string, w *tar.Writer) error
	// Reserved says why a variable is not a service's to set; empty where it is.
	Reserved func(name string) string
	// Named says who has a host of a name, by which no service is called then ([Named]).
	Named func(name string) string
	// Say tells the person something.
	Say func(text string)
}

// member is one cloister of the plan.
type member struct {
	Service
	number  uint8
	session string // the name of its session
	peers   sandbox.Peers
	local   map[uint16]*member // whose a port of the own loopback is
}

// Plan is what is to be started; nothing of it runs yet.
type Plan struct {
	o       Options
	agent   *member
	list    []*member
	folder  string // of this project's services
	members []*member
}

// PlanError says what a service lacks to be started.
type PlanError struct {
	Service Service
	Msg     string
}

func (e *PlanError) Error() string {
	return fmt.Sprintf("%s:%d: the service %s: %s", e.Service.File, e.Service.Line, e.Service.Name, e.Msg)
}

// mostLocal bounds the ports that a cloister has of others on its own loopback.
const mostLocal = 12

// New plans the services: their numbers, names, and who reaches which.
func New(o Options) (*Plan, error) {
	sum := sha256.Sum256([]byte(o.Project))
	id := hex.EncodeToString(sum[:8])
	p := &Plan{o: o, folder: filepath.Join(o.Data, "compose", id)}
	p.agent = &member{Service: o.Agent, number: 1}
	p.members = []*member{p.agent}
	for n, s := range o.List {
		if argv(s) == nil {
			return nil, &PlanError{s, "neither it nor its image says what to run"}
		}
		m := &member{Service: s, number: uint8(n + 2), session: sessionName(o.Name, s.Name, id)}
		if slices.ContainsFunc(p.list, func(o *member) bool { return o.session == m.session }) {
			m.session = sessionName(o.Name, fmt.Sprintf("%d-%s", m.number, s.Name), id)
		}
		p.list, p.members = append(p.list, m), append(p.members, m)
	}
	if err := p.untaken(); err != nil {
		return nil, err
	}
	for _, m := range p.members {
		if err := p.connect(m); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// sessionName is a name that no other project's service has.
func sessionName(base, service, id string) string {
	word := func(text string, most int) string {
		text = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			if r >= 'A' && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return '-'
		}, text)
		return strings.Trim(text[:min(len(text), most)], "-")
	}
	return cmp.Or(word(base, 16), "cloister") + "-" + cmp.Or(word(service, 20), "service") + "-" + id[:4]
}

// connect finds out which others a cloister reaches: those of its networks by name, and those that
// it shares a network with by the ports of its loopback.
func (p *Plan) connect(m *member) error {
	m.peers = sandbox.Peers{Self: m.number}
	m.local = map[uint16]*member{}
	add := func(o *member) {
		for _, name := range o.Names {
			if !slices.ContainsFunc(m.peers.Names, func(n sandbox.PeerName) bool { return n.Name == name }) {
				m.peers.Names = append(m.peers.Names, sandbox.PeerName{Number: o.number, Name: name})
			}
		}
	}
	add(m)
	for _, o := range p.members {
		if o == m {
			continue
		}
		if p.root(o) == p.root(m) {
			for _, port := range ports(o.Service) {
				if m.local[port] == nil && !slices.Contains(ports(m.Service), port) {
					m.local[port] = o
					m.peers.Local = append(m.peers.Local, port)
				}
			}
			add(o)
		}
		if p.together(m, o) {
			m.peers.Others = append(m.peers.Others, o.number)
			add(o)
		}
	}
	if len(m.peers.Local) > mostLocal {
		return &PlanError{m.Service, fmt.Sprintf("more than %d ports of others are to be its own", mostLocal)}
	}
	return nil
}

// together reports whether two cloisters are in one network.
func (p *Plan) together(m, o *member) bool {
	others := p.networks(o)
	return p.root(m) == p.root(o) ||
		slices.ContainsFunc(p.networks(m), func(n string) bool { return slices.Contains(others, n) })
}

// root is the service whose network a service has.
func (p *Plan) root(m *member) *member {
	for range p.members {
		at := slices.IndexFunc(p.members, func(o *member) bool { return m.With != "" && o.Name == m.With })
		if at < 0 {
			break
		}
		m = p.members[at]
	}
	return m
}

func (p *Plan) networks(m *member) []string { return p.root(m).Networks }

// ports are those that a service says it listens on, or its image does.
func ports(s Service) []uint16 {
	out := slices.Clone(s.Ports)
	if s.Image.Run != nil {
		out = append(out, s.Image.Run.Ports...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// argv is what a service runs: a command of its own is given to the image's entrypoint, an
// entrypoint of its own leaves nothing of the image's.
func argv(s Service) []string {
	var run image.Run
	if s.Image.Run != nil {
		run = *s.Image.Run
	}
	entry, command := run.Entrypoint, run.Command
	if s.Entrypoint != nil {
		entry, command = s.Entrypoint, nil
	}
	if s.Command != nil {
		command = s.Command
	}
	out := slices.Concat(entry, command)
	if len(out) == 0 || out[0] == "" {
		return nil
	}
	return out
}

// health is a service's own check, or its image's; nil for none.
func health(s Service) *services.Health {
	h := s.Health
	if h == nil && s.Image.Run != nil && s.Image.Run.Health != nil {
		i := s.Image.Run.Health
		h = &services.Health{Interval: cmp.Or(i.Interval, 30*time.Second), Timeout: cmp.Or(i.Timeout, 30*time.Second),
			StartDelay: i.StartDelay, Retries: cmp.Or(i.Retries, 3)}
		switch {
		case len(i.Test) > 1 && i.Test[0] == "CMD":
			h.Test = i.Test[1:]
		case len(i.Test) > 1 && i.Test[0] == "CMD-SHELL":
			h.Test = []string{"/bin/sh", "-c", strings.Join(i.Test[1:], " ")}
		}
	}
	if h == nil || len(h.Test) == 0 {
		return nil
	}
	return h
}

// Peers are those of the agent's cloister: its box is begun with them.
func (p *Plan) Peers() *sandbox.Peers {
	if p == nil {
		return nil
	}
	return &p.agent.peers
}
