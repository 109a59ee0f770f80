package main

import (
	"io"
	"path/filepath"
	"strings"
)

// What the test of certificates runs: programs of Debian, and of npm.
var (
	tlsPackages = strings.Fields(`wget gnutls-bin httpie python3-requests python3-httpx python3-aiohttp ruby php-cli php-curl
		php-mbstring composer libwww-perl liblwp-protocol-https-perl erlang-inets erlang-ssl maven default-jre-headless firefox-esr`)
	tlsModules = strings.Fields(`deno@2.9.6 bun@1.4.5`)
)

// clients asks programs of many kinds for a page through an opened connection, and writes
// which of them trust the session's authority.
func (r *runner) clients() {
	prefix := filepath.Join(r.tools, "clients")
	ready := r.once("programs that speak TLS", func(out io.Writer) error {
		if r.root {
			if err := r.machine.apt(out, tlsPackages...); err != nil {
				return err
			}
		}
		return r.machine.npm(out, prefix, tlsModules, "--global")
	})
	if !ready {
		return
	}
	r.check("clients of TLS", func(out io.Writer) error {
		return r.run(out, cmd{
			words: []string{"go", "test", "-count=1", "-run=^TestCertificates$", "./cmd/cloister/realtest"},
			env:   []string{"CLOISTER_CLIENTS=" + prefix, "CLOISTER_KEEP=1"},
		})
	})
}
