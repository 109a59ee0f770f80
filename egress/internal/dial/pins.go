package dial

import (
	"errors"
	"fmt"
	"net/netip"

	"cloister/egress/internal/guard"
	"cloister/internal/authority"
)

// A Pin is a key of the table of hosts; port 0 stands for every port.
type Pin struct {
	Host string
	Port uint16
}

// ParsePins checks a table of hosts. The value's port may be left out, which keeps
// the port that was asked for (port 0 here).
func ParsePins(hosts map[string]string, g guard.Guard) (map[Pin]netip.AddrPort, error) {
	pins := make(map[Pin]netip.AddrPort, len(hosts))
	var errs []error
	for key, value := range hosts {
		k, err := parsePinKey(key)
		to, err2 := parsePinValue(value)
		if err := errors.Join(err, err2); err != nil {
			errs = append(errs, fmt.Errorf("hosts: %s: %w", Quote(key), err))
			continue
		}
		if err := g.Check(to.Addr(), true); err != nil {
			errs = append(errs, fmt.Errorf("hosts: %s: %w", Quote(key), err))
			continue
		}
		pins[k] = to
	}
	return pins, errors.Join(errs...)
}

func parsePinKey(key string) (Pin, error) {
	if a, err := authority.Parse(key, 1); err == nil {
		return Pin{Host: a.Host()}, nil
	}
	a, err := authority.ParseHostPort(key, 0)
	if err != nil {
		return Pin{}, err
	}
	return Pin{a.Host(), a.Port()}, nil
}

func parsePinValue(value string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(value); err == nil && addr.Zone() == "" {
		return netip.AddrPortFrom(addr.Unmap(), 0), nil
	}
	to, err := netip.ParseAddrPort(value)
	if err != nil || to.Port() == 0 || to.Addr().Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("%s is not IP:PORT", Quote(value))
	}
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), nil
}
