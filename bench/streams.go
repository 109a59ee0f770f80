package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/bench/streams"
)

const wsKey = "dGhlIHNhbXBsZSBub25jZQ=="

// events takes Times events, and tells how long each was on its way, in seconds.
func (o order) events() ([]float64, error) {
	c, r, err := o.secure()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "GET %s%d HTTP/1.1\r\nHost: %s\r\n\r\n", streams.EventsPath, o.Times, o.To); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	var took []float64
	for in := bufio.NewReader(resp.Body); len(took) < o.Times; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		sent, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(time.Unix(0, sent)).Seconds())
	}
	return took, nil
}

// messages sends Times messages, one after another, and tells how long each took
// there and back, in seconds.
func (o order) messages() ([]float64, error) {
	c, r, err := o.secure()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", streams.EchoPath, o.To, wsKey); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // it has none
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, errors.New(resp.Status)
	}
	var took []float64
	tick := time.NewTicker(streams.Every) // each is alone on its way
	defer tick.Stop()
	for i := range o.Times {
		<-tick.C
		frame := append([]byte{0x82, 0x88, 1, 2, 3, 4}, binary.BigEndian.AppendUint64(nil, uint64(i))...) // a counter
		for j := range 8 {
			frame[6+j] ^= frame[2+j%4]
		}
		began := time.Now()
		if _, err := c.Write(frame); err != nil {
			return nil, err
		}
		got, err := streams.ReadFrame(r)
		if err != nil {
			return nil, err
		}
		if len(got) != 8 || binary.BigEndian.Uint64(got) != uint64(i) {
			return nil, fmt.Errorf("message %d came back as %x", i, got)
		}
		took = append(took, time.Since(began).Seconds())
	}
	return took, nil
}

// measureStreams compares both with the direct way.
func measureStreams(ctx context.Context, w *world) error {
	list, done, err := w.secureWays(ctx)
	if err != nil {
		return err
	}
	defer done()
	list = slices.DeleteFunc(slices.Clone(list), func(y reader) bool { return y.way.name == leastLoop }) // it knows lengths alone
	for range w.rounds(5) {
		list, err = each(w, list, func(y reader) error {
			for subject, do := range map[string]string{"event": "events", "message": "messages"} {
				took, err := y.each(order{Name: y.name, Roots: y.roots, Do: do, Times: w.rounds(300)})
				if err != nil {
					return fmt.Errorf("%s: %w", do, err)
				}
				w.raw.add(subject+" p50", y.way.name, "ms", at(took, 0.5)*1e3)
				w.raw.add(subject+" p99", y.way.name, "ms", at(took, 0.99)*1e3)
			}
			return nil
		}, func(y reader) string { return y.way.name })
		if err != nil {
			return err
		}
	}
	for _, subject := range []string{"event", "message"} {
		w.added(subject, "p50", "ms")
		w.added(subject, "p99", "ms")
	}
	return nil
}
