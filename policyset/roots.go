package policyset

import (
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"cloister/config"
	"cloister/host/resolve"
	"cloister/internal/certfile"
	"cloister/internal/source"
)

// upstreamRoots are the host's authorities with those of proxy.upstream_ca; nil
// where there are none of these. A file that does not load is an error with the
// place that names it: connections to what it signs would fail one by one. So is one
// that a payload could have written, or led elsewhere: it would sign for any host.
func upstreamRoots(c *config.Config, home string, now resolve.Now) (*x509.CertPool, error) {
	if len(c.Proxy.UpstreamCA) == 0 {
		return nil, nil
	}
	host, err := now()
	if err != nil {
		return nil, err
	}
	var errs []error
	var more []*x509.Certificate
	for i, name := range c.Proxy.UpstreamCA {
		certs, err := authorities(host, name, home)
		if err != nil {
			place := c.Place(fmt.Sprintf("proxy.upstream_ca[%d]", i))
			errs = append(errs, &source.Problem{Position: place, Msg: "proxy.upstream_ca: " + err.Error()})
		}
		more = append(more, certs...)
	}
	if err := errors.Join(errs...); err != nil {
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

func authorities(host *resolve.Resolver, name, home string) ([]*x509.Certificate, error) {
	path := name
	if rest, ok := strings.CutPrefix(name, "~"); ok && home != "" {
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		return certfile.Read(name, home) // which says what is missing
	}
	f, err := host.Settings(path)
	if err != nil {
		return nil, err
	}
	return certfile.Read(f.Real, "")
}
