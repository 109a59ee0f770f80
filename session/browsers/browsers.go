// Package browsers writes down for Chromium and its kin inside which authorities to trust.
//
// It promises that what a cloister's bundle of certificates has more than the host's is
// trusted by a browser of version 131 or later. It does nothing for Firefox, which has a
// store in each profile.
//
// Most readers want [Files].
package browsers

import (
	"encoding/json"
	"encoding/pem"
	"fmt"

	"cloister/sandbox"
)

// policies are the folders from which Chromium, Chrome, and Chrome for Testing read
// their policies. They read no bundle of certificates and no variable.
var policies = []string{"/etc/chromium", "/etc/opt/chrome", "/etc/opt/chrome_for_testing"}

// Files add authorities, as PEM, to those that the browsers trust for servers.
func Files(authorities []byte) ([]sandbox.File, error) {
	var policy struct {
		CACertificates [][]byte // JSON has them in base64 of DER, as the policy wants them
	}
	for block, rest := pem.Decode(authorities); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			policy.CACertificates = append(policy.CACertificates, block.Bytes)
		}
	}
	if policy.CACertificates == nil {
		return nil, nil
	}
	text, err := json.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("write Chromium's authorities: %w", err)
	}
	var files []sandbox.File
	for _, dir := range policies {
		files = append(files, sandbox.File{
			Path: sandbox.GuestPath(dir + "/policies/managed/cloister.json"), Data: append(text, '\n'), Mode: 0o644,
		})
	}
	return files, nil
}
