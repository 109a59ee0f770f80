package serve

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cloister/api"
	"cloister/policy/destination"
	"cloister/session/launch"
)

// Network is what a request says of the network. It can only take away from what the
// tenant's policy allows: what AllowOut names is kept from DenyOut, and opened by the
// policy or not at all.
type Network struct {
	Off      bool     `json:"off,omitempty"`
	AllowOut []string `json:"allow_out,omitempty"`
	DenyOut  []string `json:"deny_out,omitempty"`
	// Also is what those had taken away whose files the sandbox began with.
	Also []Network `json:"also,omitempty"`
}

// isEverything reports whether a destination is a way to write all of them: ::0/0 is one too.
func isEverything(d string) bool {
	r, err := netip.ParsePrefix(d)
	return d == "*" || err == nil && r.Bits() == 0
}

// usual says that a request takes nothing away.
func (n Network) usual() bool { return !n.Off && len(n.DenyOut)+len(n.Also) == 0 }

// apply writes the network into an order, as less than the policy allows.
func (n Network) apply(o *launch.Order) error {
	if err := n.check(); err != nil {
		return err
	}
	o.NoNetwork = n.Off
	o.Narrow = n.statements()
	return nil
}

// parts are all that takes away, each once.
func (n Network) parts() []Network {
	out := []Network{n}
	for _, part := range n.Also {
		if !part.same(n) {
			out = append(out, part)
		}
	}
	return out
}

// same says that both name the same destinations.
func (n Network) same(o Network) bool {
	return slices.Equal(n.AllowOut, o.AllowOut) && slices.Equal(n.DenyOut, o.DenyOut)
}

// statements are what a session is forbidden besides its policy.
func (n Network) statements() []api.CedarFile {
	var text strings.Builder
	for _, part := range n.parts() {
		switch {
		case part.Off || len(part.AllowOut) == 0 && slices.ContainsFunc(part.DenyOut, isEverything):
			text.WriteString("forbid (principal, action == Action::\"NetworkConnect\", resource);\n")
		case len(part.DenyOut) > 0:
			text.WriteString(part.forbid())
		}
	}
	if text.Len() == 0 {
		return nil
	}
	return []api.CedarFile{{Name: "network", Text: text.String()}}
}

// SetNetwork replaces what the sandbox's maker had taken away of the network while it runs;
// what was taken away of the sandboxes whose copy it is stays so. Connections that are not
// allowed any more are closed when it returns.
func (s *Sandbox) SetNetwork(ctx context.Context, n Network) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	r := s.Record()
	switch {
	case r.State == ended:
		return ErrNone
	case r.State != Running:
		return &NotRunning{r.ID}
	case r.Offline && !n.Off:
		return &BadRequest{"network: a sandbox that was made without the Internet has no network, and is given none: make another"}
	}
	n.Also = r.Network.Also
	if err := n.check(); err != nil {
		return err
	}
	if err := s.recorded(ctx, ActSandbox, "network", n.String()); err != nil {
		return err
	}
	if err := s.host.Engine.Narrow(ctx, s.host.place(s.tenant.Name), r.ID, n.statements()); err != nil {
		return fmt.Errorf("change the network of sandbox %s: %w", r.ID, err)
	}
	s.mu.Lock()
	s.record.Network = n
	s.mu.Unlock()
	return s.save()
}

// String is what the record says of it.
func (n Network) String() string {
	if n.Off {
		return "off"
	}
	return fmt.Sprintf("deny %s, but for %s", strings.Join(n.DenyOut, " "), strings.Join(n.AllowOut, " "))
}

// Bounds of the destinations of one request.
const (
	maxDestinations = 1000
	maxDestination  = 300
)

// check refuses what names no destination, and too many of them: copies of copies keep what
// each of their makers had taken away.
func (n Network) check() error {
	var all []string
	for _, part := range n.parts() {
		all = append(append(all, part.DenyOut...), part.AllowOut...)
	}
	if len(all) > maxDestinations {
		return &BadRequest{fmt.Sprintf("network: want at most %d destinations", maxDestinations)}
	}
	for _, d := range all {
		if !isEverything(d) && !isDestination(d) {
			return &BadRequest{fmt.Sprintf("network: %.64q: want a domain, an address or a range of addresses", d)}
		}
	}
	return nil
}

func isDestination(d string) bool {
	odd := func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' }
	if len(d) > maxDestination || strings.ContainsFunc(d, odd) {
		return false
	}
	if strings.Contains(d, "/") {
		if _, err := netip.ParsePrefix(d); err != nil { // one with a port is no term of a statement
			return false
		}
	}
	return destination.Check(nil, []string{d}) == nil
}

// forbid is the statement that closes what is denied and not kept from it.
func (n Network) forbid() string {
	text := fmt.Sprintf("forbid (principal, action == Action::\"NetworkConnect\", resource) when { %s }", anyOf(n.DenyOut))
	if len(n.AllowOut) > 0 {
		text += fmt.Sprintf(" unless { %s }", anyOf(n.AllowOut))
	}
	return text + ";\n"
}

// anyOf is the condition that a destination is one of a list.
func anyOf(list []string) string {
	if slices.ContainsFunc(list, isEverything) {
		return "true"
	}
	var out []string
	for _, d := range list {
		if strings.Contains(d, "/") {
			out = append(out, fmt.Sprintf("(context has ip && context.ip.isInRange(ip(%q)))", d))
		} else {
			out = append(out, fmt.Sprintf("resource in Host::%q", d))
		}
	}
	return strings.Join(out, " || ")
}

// Less is what both of two requests leave. What o takes away stays apart, though n takes away
// the same: a request may replace n's own words later.
func (n Network) Less(o Network) Network {
	out := Network{Off: n.Off || o.Off, AllowOut: n.AllowOut, DenyOut: n.DenyOut}
	before := Network{AllowOut: o.AllowOut, DenyOut: o.DenyOut}
	for _, part := range slices.Concat([]Network{before}, n.Also, o.Also) {
		if len(part.DenyOut) > 0 && !slices.ContainsFunc(out.Also, part.same) {
			out.Also = append(out.Also, part)
		}
	}
	return out
}

// checkEnv refuses variables that no program could have.
func checkEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return &BadRequest{fmt.Sprintf("envVars: %q cannot be a variable", name)}
		}
	}
	return nil
}
