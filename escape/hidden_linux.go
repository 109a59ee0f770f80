package escape

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
)

// hide makes what hides the name of a server in an encrypted ClientHello, behind each of
// the names that Bound gives (RFC 9849 4).
func (s *sinks) hide() error {
	s.hiding = map[string][]byte{}
	for i, public := range Bound() {
		private, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		vector := func(b []byte, inner []byte) []byte {
			return append(binary.BigEndian.AppendUint16(b, uint16(len(inner))), inner...)
		}
		contents := []byte{byte(i), 0, 0x20} // config_id, DHKEM(X25519)
		contents = vector(contents, private.PublicKey().Bytes())
		contents = vector(contents, []byte{0, 1, 0, 1}) // HKDF-SHA256, AES-128-GCM
		contents = append(contents, 32, byte(len(public)))
		contents = vector(append(contents, public...), nil)
		config := vector([]byte{0xfe, 0x0d}, contents)
		s.hiding[public] = vector(nil, config)
		s.hidden = append(s.hidden, tls.EncryptedClientHelloKey{Config: config, PrivateKey: private.Bytes(), SendAsRetry: true})
	}
	return nil
}

// Hiding is the configuration by which a program hides another name behind this one.
func (w *World) Hiding(public string) []byte { return w.sinks.hiding[public] }
