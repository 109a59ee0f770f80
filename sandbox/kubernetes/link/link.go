// Package link is what a cloister's gate in a pod and the shim that owns the cloister say to
// each other: HTTP/2 over one connection of mutually authenticated TLS, which the gate dials.
//
// The promise: each side has a certificate of this one cloister and takes no other, and the
// shim takes one connection alone. Each connection of a program is a stream with the address
// that it was going to; its two directions end separately, and what one side aborts the other
// sees aborted.
//
// Neither side may trust what the other says beyond that: an address is what the gate says. A
// stream between the agent's first process and the shim is the same connection's (PathInit), and so
// are connections to ports inside, which the shim asks for ([Shim.Dial]).
// Most readers want [NewPair].
package link

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"cloister/sandbox"
)

// What the gate asks for.
const (
	PathSetup  = "/setup"   // GET: a Setup
	PathOpen   = "/open"    // POST: the gate stands; the answer ends with the connection
	PathTCP    = "/tcp"     // POST: a stream to HeaderTo
	PathDNS    = "/dns"     // POST: one question as a datagram, and its answer
	PathDNSTCP = "/dns-tcp" // POST: a stream of questions
	PathInit   = "/init"    // POST: a stream between the agent's first process and the shim
	PathAsked  = "/asked"   // POST: the answer are the connections that the shim asks for, one Ask a line
	PathPort   = "/port"    // POST: the connection of an Ask, by its number in HeaderAsk
	PathRefuse = "/refused" // POST: what the kernel reported of refused datagrams, as frames
	HeaderTo   = "Cloister-To"
	HeaderAsk  = "Cloister-Ask"
)

// MaxDatagram bounds a question and its answer.
const MaxDatagram = 64 << 10

// Setup is what the gate puts into the folder that the agent's container has of it.
type Setup struct {
	Files []sandbox.File `json:"files"` // with whole contents, in the order of the pod's mounts
	Links []sandbox.Link `json:"links"`
	// Proof is what the gate shows inside: who sees it there knows that this gate is the
	// pod's.
	Proof string `json:"proof"`
}

// Ask is a connection that the shim wants to a port that something inside listens on.
type Ask struct {
	Number uint64 `json:"number"`
	Port   uint16 `json:"port"`
}

// Order is what a gate is begun with.
type Order struct {
	Address string `json:"address"` // of the shim
	Server  []byte `json:"server"`  // the shim's certificate
	Cert    []byte `json:"cert"`
	Key     []byte `json:"key"`
}

// serverName is the shim's, of which there is one.
const serverName = "guardian"

// NewPair makes the certificates of one cloister: the shim's side, and what its gate is given
// but for the address.
func NewPair(now time.Time) (*tls.Config, Order, error) {
	shim, err := certificate(serverName, now)
	if err != nil {
		return nil, Order{}, err
	}
	gate, err := certificate("gate", now)
	if err != nil {
		return nil, Order{}, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(gate.PrivateKey)
	if err != nil {
		return nil, Order{}, fmt.Errorf("make the gate's certificate: %w", err)
	}
	config := side(shim, gate.Leaf)
	config.ClientAuth, config.ClientCAs, config.RootCAs = tls.RequireAndVerifyClientCert, config.RootCAs, nil
	return config, Order{Server: shim.Certificate[0], Cert: gate.Certificate[0], Key: key}, nil
}

// Client is the gate's side.
func (o Order) Client() (*tls.Config, error) {
	key, err := x509.ParsePKCS8PrivateKey(o.Key)
	if err != nil {
		return nil, fmt.Errorf("read the gate's key: %w", err)
	}
	server, err := x509.ParseCertificate(o.Server)
	if err != nil {
		return nil, fmt.Errorf("read the shim's certificate: %w", err)
	}
	config := side(tls.Certificate{Certificate: [][]byte{o.Cert}, PrivateKey: key}, server)
	config.ServerName = serverName
	return config, nil
}

func side(own tls.Certificate, other *x509.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(other)
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{own},
		RootCAs: pool, SessionTicketsDisabled: true}
}

// lasts is how long a cloister's certificates are good: they are looked at once, at its start.
const lasts = time.Hour

func certificate(name string, now time.Time) (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-lasts), NotAfter: now.Add(lasts), // clocks of nodes differ
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, public, private)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, nil
}
