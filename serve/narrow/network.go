package narrow

import (
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/session/launch"
)

// BadRequest is the error of a request that says what cannot be.
type BadRequest struct{ What string }

func (e *BadRequest) Error() string { return e.What }

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

// Usual says that a request takes nothing away.
func (n Network) Usual() bool { return !n.Off && len(n.DenyOut)+len(n.Also) == 0 }

// Apply writes the network into an order, as less than the policy allows.
func (n Network) Apply(o *launch.Order) error {
	if err := n.Check(); err != nil {
		return err
	}
	o.NoNetwork = n.Off
	o.Narrow = n.Statements()
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

// Statements are what a session is forbidden besides its policy.
func (n Network) Statements() []api.CedarFile {
	var text strings.Builder
	for _, part := range n.parts() {
		switch {
		case part.Off || len(part.AllowOut) == 0 && slices.ContainsFunc(part.DenyOut, IsEverything):
			text.WriteString("forbid (principal, action == Action::\"NetworkConnect\", resource);\n")
		case len(part.DenyOut) > 0:
			text.WriteString(Forbid(part.DenyOut, part.AllowOut))
		}
	}
	if text.Len() == 0 {
		return nil
	}
	return []api.CedarFile{{Name: "network", Text: text.String()}}
}

// String is what the record says of it.
func (n Network) String() string {
	if n.Off {
		return "off"
	}
	return fmt.Sprintf("deny %s, but for %s", strings.Join(n.DenyOut, " "), strings.Join(n.AllowOut, " "))
}

// maxDestinations bounds those of one request.
const maxDestinations = 1000

// Check refuses what names no destination, and too many of them: copies of copies keep what
// each of their makers had taken away.
func (n Network) Check() error {
	var all []string
	for _, part := range n.parts() {
		all = append(append(all, part.DenyOut...), part.AllowOut...)
	}
	if len(all) > maxDestinations {
		return &BadRequest{fmt.Sprintf("network: want at most %d destinations", maxDestinations)}
	}
	for _, d := range all {
		if !IsEverything(d) && !IsDestination(d) {
			return &BadRequest{fmt.Sprintf("network: %.64q: want a domain, an address or a range of addresses", d)}
		}
	}
	return nil
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
