package terminal

import (
	"errors"
	"net"
	"sync"
)

// Far is a look that comes in messages, such as a browser's. A message is the
// first byte of a frame with its body.
type Far interface {
	Read() ([]byte, error)
	Write(message []byte) error
	// End hangs up, after which Read returns; over says that the program has ended.
	End(over bool)
}

// errForeign says that a message was neither typed nor a size.
var errForeign = errors.New("relay terminal: neither typed nor a size")

// Relay joins a far look to a program's terminal until the program ends or either
// side is gone. It closes both.
func Relay(conn net.Conn, far Far) error {
	var typing sync.WaitGroup
	var wrong error
	typing.Go(func() {
		defer func() { _ = conn.Close() }() // ends the loop below
		for {
			message, err := far.Read()
			if err != nil {
				return
			}
			if len(message) == 0 || frameKind(message[0]) != frameInput && frameKind(message[0]) != frameSize {
				wrong = errForeign
				return
			}
			if send(conn, frameKind(message[0]), message[1:]) != nil {
				return
			}
		}
	})
	over := false
	for !over {
		kind, body, err := receive(conn)
		if err != nil || far.Write(append([]byte{byte(kind)}, body...)) != nil {
			break
		}
		over = kind == frameEnd
	}
	_ = conn.Close()
	far.End(over)
	typing.Wait()
	return wrong
}
