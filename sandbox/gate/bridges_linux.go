package gate

import _ "embed" // of the messages

// bridgeRoutes and bridgeRules are written down as the others are.
var (
	//go:embed messages/bridge-routes.bin
	bridgeRoutes []byte
	//go:embed messages/bridge-rules.bin
	bridgeRules []byte
)

// Bridges are the two conversations that lead bridges of a gate's network to it, for
// NETLINK_ROUTE and for NETLINK_NETFILTER, once [Messages] are said: where a network
// has containers of its own. What they have an address for goes there, TCP from them goes to the
// gate as a program's does, and their questions to its DNS. Nothing is forwarded for them
// as long as net.ipv4.ip_forward is 0. IPv4 alone: an engine gives its containers no other.
func Bridges() (routes, rules []byte) { return bridgeRoutes, bridgeRules }
