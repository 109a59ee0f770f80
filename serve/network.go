package serve

import (
	"fmt"
	"slices"
	"strings"

	"cloister/session/launch"
)

// Network is what a request says of the network. It can only take away from what the
// tenant's policy allows.
type Network struct {
	Off      bool     `json:"off,omitempty"`
	AllowOut []string `json:"allow_out,omitempty"`
	DenyOut  []string `json:"deny_out,omitempty"`
}

// Forbidden is the error of a request that asks for more than the tenant may have.
type Forbidden struct{ What string }

func (e *Forbidden) Error() string { return e.What }

// everything are the ways to write all destinations.
var everything = []string{"0.0.0.0/0", "::/0", "*"}

// apply writes the network into an order, as less than the policy allows.
func (n Network) apply(o *launch.Order) error {
	all := n.Off || slices.ContainsFunc(n.DenyOut, func(d string) bool { return slices.Contains(everything, d) })
	if all && len(n.AllowOut) == 0 {
		o.NoNetwork = true
		return nil
	}
	if len(n.AllowOut) > 0 {
		return &Forbidden{fmt.Sprintf("network.allowOut: %s: a request cannot allow a destination; "+
			"proxy.allow of the tenant's configuration does", strings.Join(n.AllowOut, ", "))}
	}
	for _, d := range n.DenyOut {
		if strings.Contains(d, "/") {
			return &BadRequest{fmt.Sprintf("network.denyOut: %q: want a domain, or 0.0.0.0/0 for everything", d)}
		}
		o.Deny = append(o.Deny, d)
	}
	return nil
}

// Less is what both of two requests leave.
func (n Network) Less(o Network) Network {
	return Network{
		Off: n.Off || o.Off, AllowOut: append(slices.Clone(n.AllowOut), o.AllowOut...),
		DenyOut: append(slices.Clone(n.DenyOut), o.DenyOut...),
	}
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
