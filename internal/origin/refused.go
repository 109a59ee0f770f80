package origin

import (
	"encoding/binary"
	"net/netip"

	"github.com/mdlayher/netlink"
)

// Of linux/netfilter/nfnetlink_log.h.
const (
	messagePacket = 4 << 8 // NFNL_SUBSYS_ULOG, NFULNL_MSG_PACKET
	attrPayload   = 9      // NFULA_PAYLOAD
	header        = 16 + 4 // struct nlmsghdr and struct nfgenmsg
)

// Refused reads where a datagram went that packet rules refused, of a message of the kernel's log
// (nfnetlink_log). A port that the message has not is 0.
func Refused(text []byte) (to netip.AddrPort, ok bool) {
	if len(text) < header || binary.NativeEndian.Uint16(text[4:]) != messagePacket {
		return to, false
	}
	size := binary.NativeEndian.Uint32(text)
	if size < header || uint64(size) > uint64(len(text)) {
		return to, false
	}
	d, err := netlink.NewAttributeDecoder(text[header:size])
	if err != nil {
		return to, false
	}
	for d.Next() {
		if d.Type() == attrPayload {
			return destination(d.Bytes())
		}
	}
	return to, false
}

const udp = 17

// destination reads a packet's headers. A port beyond what the kernel gave is 0.
func destination(packet []byte) (netip.AddrPort, bool) {
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		at := int(packet[0]&0xf) * 4
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(packet[16:20])), portAt(packet, at, packet[9])), true
	case len(packet) >= 40 && packet[0]>>4 == 6:
		next, at := extensions(packet)
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(packet[24:40])), portAt(packet, at, next)), true
	}
	return netip.AddrPort{}, false
}

func portAt(packet []byte, at int, protocol byte) uint16 {
	if protocol != udp || at < 20 || len(packet) < at+4 {
		return 0
	}
	return binary.BigEndian.Uint16(packet[at+2:])
}

// extensions skips those of IPv6 that may stand before a datagram: hop-by-hop, routing
// and destination options, RFC 8200, 4.
func extensions(packet []byte) (next byte, at int) {
	next, at = packet[6], 40
	for (next == 0 || next == 43 || next == 60) && len(packet) >= at+2 {
		next, at = packet[at], at+8+8*int(packet[at+1])
	}
	return next, at
}
