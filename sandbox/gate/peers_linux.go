package gate

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// MaxPeers bounds how many cloisters stand beside each other.
const MaxPeers = 64

// peerNet is the range of RFC 5737 (203.0.113.0/24) that stands in documents alone: no
// server has such an address.
var peerNet = [4]byte{203, 0, 113, 0}

// peerDoor is the number of the address at which connections to peers are accepted.
const peerDoor = 254

// PeerAddr is the address of a cloister among those beside it, from 1 to MaxPeers.
func PeerAddr(number uint8) netip.Addr {
	a := peerNet
	a[3] = number
	return netip.AddrFrom4(a)
}

// PeerNumber is the number of such an address; 0 for any other.
func PeerNumber(a netip.Addr) uint8 {
	if a = a.Unmap(); a.Is4() && a.As4()[3] <= MaxPeers && a == PeerAddr(a.As4()[3]) {
		return a.As4()[3]
	}
	return 0
}

// PeerSocket is where TCP to the addresses of peers comes out.
func PeerSocket() Socket {
	return Socket{"peers", unix.AF_INET, unix.SOCK_STREAM, netip.AddrPortFrom(PeerAddr(peerDoor), Port)}
}

// LocalSocket is where TCP to a port of the loopback comes out that is a peer's.
func LocalSocket(port uint16) Socket {
	own := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	return Socket{"a peer's port", unix.AF_INET, unix.SOCK_STREAM, own}
}

// Hosts is /etc/hosts of a cloister: the loopback, its own name, and those beside it.
func Hosts(host string, peers *sandbox.Peers) []byte {
	text := []byte("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" + host + "\n")
	if peers == nil {
		return text
	}
	for _, n := range peers.Names {
		text = append(text, PeerAddr(n.Number).String()+"\t"+n.Name+"\n"...)
	}
	return text
}

// Numbers in the written-down rules that stand for a cloister's own and another one.
const (
	selfMark  = 251
	otherMark = 252
)

// PeerMessages is the conversation for NETLINK_NETFILTER that leads TCP to some peers to
// their socket, and lets the cloister reach its own address. It goes before the gate's
// rules, and leaves every other address to them.
func PeerMessages(self uint8, others []uint8) []byte {
	var out []byte
	sequence := uint32(0)
	add := func(m []byte, from, to uint8) {
		sequence++
		at := len(out)
		out = append(out, bytes.ReplaceAll(m, mark(from), mark(to))...)
		binary.NativeEndian.PutUint32(out[at+8:], sequence)
	}
	for rest := peersOne; len(rest) >= unix.SizeofNlMsghdr; {
		n := int(binary.NativeEndian.Uint32(rest))
		m := rest[:n]
		rest = rest[n:]
		if !bytes.Contains(m, mark(otherMark)) {
			add(m, selfMark, self)
			continue
		}
		for _, o := range others {
			add(m, otherMark, o)
		}
	}
	return out
}

func mark(number uint8) []byte {
	a := PeerAddr(number).As4()
	return a[:]
}
