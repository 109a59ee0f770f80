// Package certfile reads the certificates of a file that a person named.
//
// It promises all of them or an error that says what is wrong with the file, and
// that a device or an endless file is never read. It trusts nothing: whoever calls
// says what the certificates are for. Most readers want [Read].
package certfile

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// most bounds a file; a host's whole bundle has 220 KiB.
const most = 16 << 20

// Read gives every certificate of a PEM file; home is what ~ stands for in its name.
func Read(name, home string) ([]*x509.Certificate, error) {
	if rest, ok := strings.CutPrefix(name, "~"); ok {
		if home == "" {
			return nil, fmt.Errorf("%s: there is no home", name)
		}
		name = filepath.Join(home, rest)
	}
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > most {
		return nil, fmt.Errorf("%s: not a file of less than %d bytes", name, most)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for n := 1; ; n++ {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d cannot be read: %w", name, n, err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", name)
	}
	return out, nil
}
