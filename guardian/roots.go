package guardian

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cloister/config"
)

// mostAuthorities bounds a file; the host's whole bundle has 220 KiB.
const mostAuthorities = 16 << 20

// upstreamRoots are the host's authorities with those of proxy.upstream_ca; nil
// where there are none of these. A file that does not load is an error with the
// place that names it: connections to what it signs would fail one by one.
func upstreamRoots(c *config.Config, home string) (*x509.CertPool, error) {
	var errs []error
	var more []*x509.Certificate
	for i, name := range c.Proxy.UpstreamCA {
		certs, err := readAuthorities(name, home)
		if err != nil {
			place := c.Place(fmt.Sprintf("proxy.upstream_ca[%d]", i))
			errs = append(errs, &config.Error{File: place.File, Line: place.Line, Column: place.Column, Msg: "proxy.upstream_ca: " + err.Error()})
		}
		more = append(more, certs...)
	}
	if err := errors.Join(errs...); err != nil || len(more) == 0 {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the host's certificate authorities: %w", err)
	}
	for _, cert := range more {
		pool.AddCert(cert)
	}
	return pool, nil
}

// readAuthorities reads every certificate of a PEM file.
func readAuthorities(name, home string) ([]*x509.Certificate, error) {
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
	if !fi.Mode().IsRegular() || fi.Size() > mostAuthorities {
		return nil, fmt.Errorf("%s: not a file of less than %d bytes", name, mostAuthorities)
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
