// Package browsers writes down for browsers inside which authorities to trust.
//
// It promises that what a cloister's bundle of certificates has more than the host's is
// trusted by Chromium and its kin of version 131 or later, and by Firefox, whose policy
// puts it into the store of each profile.
//
// Most readers want [Files].
package browsers

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strconv"

	"cloister/sandbox"
)

// policies are the folders from which Chromium, Chrome, and Chrome for Testing read
// their policies. They read no bundle of certificates and no variable.
var policies = []string{"/etc/chromium", "/etc/opt/chrome", "/etc/opt/chrome_for_testing"}

// firefox is the folder from which Firefox reads its policies, and nothing of ours else.
const firefox = "/etc/firefox/policies"

// Files add authorities, as PEM, to those that the browsers trust for servers.
func Files(authorities []byte) ([]sandbox.File, error) {
	var policy struct {
		CACertificates [][]byte // JSON has them in base64 of DER, as the policy wants them
	}
	var files []sandbox.File
	add := func(path string, data []byte) {
		files = append(files, sandbox.File{Path: sandbox.GuestPath(path), Data: data, Mode: 0o644})
	}
	var install []string
	for block, rest := pem.Decode(authorities); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			policy.CACertificates = append(policy.CACertificates, block.Bytes)
			path := firefox + "/cloister-" + strconv.Itoa(len(install)) + ".pem" // Firefox takes the first of a file
			add(path, pem.EncodeToMemory(block))
			install = append(install, path)
		}
	}
	if policy.CACertificates == nil {
		return nil, nil
	}
	text, err := json.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("write Chromium's authorities: %w", err)
	}
	for _, dir := range policies {
		add(dir+"/policies/managed/cloister.json", append(text, '\n'))
	}
	text, err = json.Marshal(map[string]any{
		"policies": map[string]any{"Certificates": map[string]any{"Install": install}},
	})
	if err != nil {
		return nil, fmt.Errorf("write Firefox's authorities: %w", err)
	}
	add(firefox+"/policies.json", append(text, '\n'))
	return files, nil
}
