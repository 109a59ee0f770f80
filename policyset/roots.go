package policyset

import (
	"crypto/x509"
	"errors"
	"fmt"

	"cloister/config"
	"cloister/internal/certfile"
	"cloister/internal/source"
)

// upstreamRoots are the host's authorities with those of proxy.upstream_ca; nil
// where there are none of these. A file that does not load is an error with the
// place that names it: connections to what it signs would fail one by one.
func upstreamRoots(c *config.Config, home string) (*x509.CertPool, error) {
	var errs []error
	var more []*x509.Certificate
	for i, name := range c.Proxy.UpstreamCA {
		certs, err := certfile.Read(name, home)
		if err != nil {
			place := c.Place(fmt.Sprintf("proxy.upstream_ca[%d]", i))
			errs = append(errs, &source.Problem{Position: place, Msg: "proxy.upstream_ca: " + err.Error()})
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
