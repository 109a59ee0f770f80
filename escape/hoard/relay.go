package hoard

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Relay serves TLS with a certificate in front of a server, as the standard library does
// by itself, until it is closed.
func Relay(l net.Listener, cert tls.Certificate, to, name string) *http.Server {
	by := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: to})
	by.Transport = &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{ServerName: name, InsecureSkipVerify: true}} // its server is the test's
	// Clients that end are what this is about.
	by.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s := &http.Server{Handler: by, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
	go func() { _ = s.ServeTLS(l, "", "") }()
	return s
}
