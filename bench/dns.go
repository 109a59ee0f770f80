package main

import (
	"context"
	"net"
	"strconv"
	"strings"
)

// resolver is where a cloister's questions go.
const resolver = "198.18.0.1:53"

// measureDNS asks the guardian from inside a cloister, and a server that
// returns the question at once.
func measureDNS(ctx context.Context, w *world) error {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = pc.Close() }()
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if _, err := pc.WriteTo(buf[:n], from); err != nil {
				return
			}
		}
	}()
	if _, err := w.guardian(ctx, 9); err != nil {
		return err
	}
	client, err := w.client()
	if err != nil {
		return err
	}
	direct, err := w.open(ctx, "direct", []string{client, insideWord}, pc.LocalAddr().String(), "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = direct.close() }()
	mine, err := w.open(ctx, ours, []string{w.cloister, "run", "--", client, insideWord}, resolver, "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = mine.close() }()
	for range w.rounds(7) {
		for _, wide := range []int{1, 16} {
			subject := strings.TrimSuffix("dns "+strconv.Itoa(wide), " 1")
			times := w.rounds(4000)
			for _, c := range []struct {
				way        *way
				name, host string
			}{
				{direct, "direct", "sink.bench.example."},
				{mine, ours, "sink.bench.example."},
				{mine, "cloister, denied", "nobody.bench.example."},
			} {
				seconds, err := c.way.do(order{Do: "dns", Times: times, Wide: wide, Name: c.host})
				if err != nil {
					return err
				}
				w.raw.add(subject, c.name, "a second", float64(times)/seconds)
			}
		}
	}
	return nil
}
