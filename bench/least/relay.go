package least

import (
	"errors"
	"fmt"
	"io"
	"net"
)

// Relay carries what comes to the first address to the second, and lets the kernel copy.
func Relay(words []string) error {
	if len(words) != 2 {
		return errors.New("relay: want FROM TO")
	}
	l, err := net.Listen("tcp", words[0])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		go carry(c, words[1])
	}
}

func carry(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return // the client sees it
	}
	defer server.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
	<-done
}
