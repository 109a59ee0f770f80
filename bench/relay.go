package main

import (
	"errors"
	"fmt"
	"io"
	"net"
)

// relayWord makes this program the least that can stand between a client and a
// server: it accepts, dials and lets the kernel copy. It decides nothing and
// records nothing, so what it costs is what standing in between costs here.
const relayWord = "relay"

// bare is the name of that peer.
const bare = "bare relay in Go"

// relay carries what comes to the first address to the second.
func relay(words []string) error {
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
