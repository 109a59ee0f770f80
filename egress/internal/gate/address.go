package gate

import "net/netip"

// Proxy is the name by which programs inside reach the gate itself.
const Proxy = "proxy.cloister.internal"

// Address is where the gate is for a program inside.
func Address() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, 1}) }

func address6() netip.Addr { return netip.AddrFrom16([16]byte{0xfd, 0, 0, 0xc1, 15: 1}) }

// Is reports whether a program talks to the gate itself.
func Is(addr netip.Addr) bool { return addr.Unmap() == Address() || addr == address6() }
