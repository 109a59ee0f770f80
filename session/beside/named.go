package beside

import (
	"fmt"
	"slices"
	"strings"

	"cloister/config"
	"cloister/policy/destination"
)

// Named reports who names a host: a rule, a pinned address, a secret or a word of the command
// line; empty for no one. A service of that name would take the host's place inside, and
// answer what was meant for it. Names with a dot are no service's, and wildcards name none.
func Named(c *config.Config, allow, deny []string) (func(name string) string, error) {
	by := map[string]string{}
	add := func(host, who string) {
		if host = strings.ToLower(strings.TrimSuffix(host, ".")); by[host] == "" {
			by[host] = who
		}
	}
	for _, r := range slices.Concat(c.Proxy.Allow, c.Proxy.Ask, c.Proxy.Deny) {
		add(r.Domain, r.Place.String())
	}
	for host := range c.Proxy.Hosts {
		add(host, "proxy.hosts")
	}
	for _, s := range c.Secrets {
		for _, host := range s.Hosts {
			add(host, "the secret "+s.Name)
		}
	}
	words, err := destination.Rules(allow, deny)
	if err != nil {
		return nil, err
	}
	for _, r := range words {
		add(r.Domain, "a word of the command line")
	}
	return func(name string) string { return by[strings.ToLower(name)] }, nil
}

// A TakenName is a service's that policy has for a host.
type TakenName struct {
	Service   Service
	Name, Who string
}

func (e *TakenName) Error() string {
	return fmt.Sprintf("%s:%d: the service %s is called %s inside, which is a host that %s names",
		e.Service.File, e.Service.Line, e.Service.Service.Name, e.Name, e.Who)
}

// Hints are the words of what to do.
func (e *TakenName) Hints() []string {
	return []string{"inside, the name would lead to the service instead of the host: give the service another name",
		"or start the agent alone: --image IMAGE"}
}

// untaken refuses services by whose names policy knows hosts.
func (p *Plan) untaken() error {
	for _, m := range p.members {
		for _, name := range m.Names {
			if who := p.o.Named(name); who != "" {
				return &TakenName{m.Service, name, who}
			}
		}
	}
	return nil
}
