// Package listeners turns the sockets of a session's network, which its shim passed to the
// guardian as descriptors, into what a proxy accepts connections on.
//
// It promises that on an error no descriptor stays open in a listener. It accepts nothing
// and knows no session.
//
// Most readers want [Adopt].
package listeners

import (
	"fmt"
	"net"
	"os"

	"cloister/api"
	"cloister/egress"
	"cloister/internal/origin"
)

// Adopt makes listeners of passed descriptors; on an error none stays open.
func Adopt(kinds []api.ListenerKind, files []*os.File) (egress.Listeners, error) {
	var out egress.Listeners
	err := func() error {
		for i, kind := range kinds {
			switch kind {
			case api.ListenTCP4, api.ListenTCP6, api.ListenDNSTCP, api.ListenDNSTCP6, api.ListenStreams, api.ListenDNSStreams:
				s, err := net.FileListener(files[i])
				if err != nil {
					return fmt.Errorf("listener %s: %w", kind, err)
				}
				if kind == api.ListenStreams {
					s = origin.Listener{Listener: s}
				}
				if kind == api.ListenTCP4 || kind == api.ListenTCP6 || kind == api.ListenStreams {
					out.TCP = append(out.TCP, s)
				} else {
					out.DNSTCP = append(out.DNSTCP, s)
				}
			case api.ListenDNS, api.ListenDNS6:
				s, err := net.FilePacketConn(files[i])
				if err != nil {
					return fmt.Errorf("listener %s: %w", kind, err)
				}
				out.DNS = append(out.DNS, s)
			case api.ListenRefusals:
				s, err := egress.Refusals(files[i])
				if err != nil {
					return fmt.Errorf("listener %s: %w", kind, err)
				}
				out.Refusals = s
			default:
				return fmt.Errorf("listener %q is unknown", kind)
			}
		}
		return nil
	}()
	if err != nil {
		out.Close()
		return egress.Listeners{}, err
	}
	return out, nil
}
