//go:build !linux

package beside

import (
	"errors"
	"net"
)

// peerOf knows no peers: no driver of this system builds any.
func peerOf(net.Conn) (uint8, uint16, error) {
	return 0, 0, errors.New("no cloister stands beside another on this system")
}
