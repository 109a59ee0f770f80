// Package names gives each name of a session an address that exists nowhere else.
//
// Promise: a name has the same address for the session's whole life, also after
// another guardian took it over, and the names that are kept are bounded.
//
// It asks no resolver and knows no policy.
//
// Most readers want Names.
package names

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync"
)

// The synthetic range is 198.18.0.0/15 (RFC 2544): no host on the internet has
// such an address, so a program that keeps one can do no harm with it. The
// first two and the last 256 addresses are set aside.
const (
	syntheticBase  = 198<<24 | 18<<16
	syntheticFirst = 2
	syntheticCount = 1<<17 - 256 - syntheticFirst // up to 198.19.254.255
)

// ErrFull is a session that has as many names as it may.
var ErrFull = errors.New("this session has used up its names")

// Names gives each name of a session one synthetic address, for its whole
// life.
type Names struct {
	session string
	most    int

	mu     sync.RWMutex
	byName map[string]uint32
	bySlot map[uint32]string
}

// New makes the names of a session, at most so many.
func New(session string, most int) *Names {
	return &Names{session: session, most: most, byName: map[string]uint32{}, bySlot: map[uint32]string{}}
}

// Address gives the name's address and keeps it. The place comes from a hash
// of session and name, so that another guardian which adopts this session
// gives the same name the same address without having been informed: a program
// that remembers an answer is not sent to another name after a restart.
func (n *Names) Address(name string) (netip.Addr, error) {
	n.mu.RLock()
	slot, ok := n.byName[name]
	n.mu.RUnlock()
	if ok {
		return slotAddr(slot), nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if slot, ok := n.byName[name]; ok {
		return slotAddr(slot), nil
	}
	if len(n.byName) >= n.most {
		return netip.Addr{}, ErrFull
	}
	sum := sha256.Sum256([]byte(n.session + "\x00" + name))
	slot = binary.BigEndian.Uint32(sum[:]) % syntheticCount
	for n.bySlot[slot] != "" {
		slot = (slot + 1) % syntheticCount
	}
	n.byName[name], n.bySlot[slot] = slot, name
	return slotAddr(slot), nil
}

// Name finds whose address it is.
func (n *Names) Name(addr netip.Addr) (string, bool) {
	slot, ok := addrSlot(addr)
	if !ok {
		return "", false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	name, ok := n.bySlot[slot]
	return name, ok
}

func slotAddr(slot uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], syntheticBase+syntheticFirst+slot)
	return netip.AddrFrom4(b)
}

func addrSlot(addr netip.Addr) (uint32, bool) {
	addr = addr.Unmap()
	if !addr.Is4() {
		return 0, false
	}
	b := addr.As4()
	n := binary.BigEndian.Uint32(b[:])
	if n < syntheticBase+syntheticFirst || n >= syntheticBase+syntheticFirst+syntheticCount {
		return 0, false
	}
	return n - syntheticBase - syntheticFirst, true
}

// IsSynthetic reports whether an address is of the range, given out or not.
func IsSynthetic(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.Is4() && netip.PrefixFrom(slotAddr(0), 15).Masked().Contains(addr)
}

// Parent is the last two labels of a name.
func Parent(host string) string {
	i := strings.LastIndexByte(host, '.')
	if i < 0 {
		return host
	}
	if j := strings.LastIndexByte(host[:i], '.'); j >= 0 {
		return host[j+1:]
	}
	return host
}
