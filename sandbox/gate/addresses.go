package gate

// The gate's own addresses inside, and the port of its TCP listener. The port
// is one that no program listens on, the addresses lie in ranges that never
// occur outside: RFC 2544 (198.18.0.0/15) and RFC 4193 (fd00::/8).
const (
	Addr4   = "198.18.0.1"
	Addr6   = "fd00:c1::1"
	Port    = 1
	DNSPort = 53
)
