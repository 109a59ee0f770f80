package stream

import "time"

// Limits bound what one session can hold or wait for. A zero field means its
// default.
type Limits struct {
	Connections int           // open at once; 1024
	Names       int           // distinct names with a synthetic address; 8192
	DNSConns    int           // DNS connections at once, what comes by UDP not counted; 64
	Handshake   time.Duration // for a ClientHello, an HTTP head, a SOCKS greeting; 10 s
	Idle        time.Duration // between two requests, or for a silent new connection; 60 s
	Dial        time.Duration // resolve and connect; 10 s
	HalfClosed  time.Duration // silence after one side has ended; 60 s
}

// WithDefaults is l with its zero fields filled in.
func (l Limits) WithDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	setTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.Connections, 1024)
	set(&l.Names, 8192)
	set(&l.DNSConns, 64)
	setTime(&l.Handshake, 10*time.Second)
	setTime(&l.Idle, time.Minute)
	setTime(&l.Dial, 10*time.Second)
	setTime(&l.HalfClosed, time.Minute)
	return l
}
