// Package wire is what requests of E2B's SDKs say about the network of a sandbox.
//
// The promise: a member whose name is misspelt, unknown or there twice is an error. A denial that
// is not read would take nothing away, and be answered as if it did.
//
// It judges no destination: package serve does.
//
// Most readers want [Network].
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cloister/serve"
)

// Egress is what may leave a sandbox, as both requests have it.
type Egress struct {
	AllowOut    []string            `json:"allowOut"`
	DenyOut     []string            `json:"denyOut"`
	EgressProxy *struct{}           `json:"egressProxy"`
	Rules       map[string]struct{} `json:"rules"`
}

// Network is what of a request for a sandbox is about the network.
type Network struct {
	Egress
	AllowPublicTraffic *bool  `json:"allowPublicTraffic"`
	MaskRequestHost    string `json:"maskRequestHost"`
}

// Update is a request to change the network of a sandbox that runs. What it leaves out is
// taken back.
type Update struct {
	Egress
	Internet *bool `json:"allow_internet_access"`
}

// Check refuses what cloister serve has not.
func (q Egress) Check() error {
	if q.EgressProxy != nil || len(q.Rules) > 0 {
		return &serve.BadRequest{What: "network: egressProxy and rules: cloister serve has none"}
	}
	return nil
}

// The names of the members of both.
var (
	egressNames  = []string{"allowOut", "denyOut", "egressProxy", "rules"}
	networkNames = append([]string{"allowPublicTraffic", "maskRequestHost", "httpsPorts"}, egressNames...)
	updateNames  = append([]string{"allow_internet_access"}, egressNames...)
)

// UnmarshalJSON reads the network of a request for a sandbox.
func (q *Network) UnmarshalJSON(text []byte) error {
	type plain Network
	return exactly(text, networkNames, (*plain)(q))
}

// UnmarshalJSON reads a request to change the network.
func (q *Update) UnmarshalJSON(text []byte) error {
	type plain Update
	return exactly(text, updateNames, (*plain)(q))
}

// exactly reads an object whose members have names of a list, each once and as it is written there.
func exactly(text []byte, names []string, into any) error {
	if string(text) == "null" {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return errors.New("network: want an object")
	}
	var seen []string
	for in.More() {
		token, err := in.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if !slices.Contains(names, name) {
			return fmt.Errorf("network: cloister serve knows no %.64q", name)
		}
		if slices.Contains(seen, name) {
			return fmt.Errorf("network: %s stands there twice", name)
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return err
		}
	}
	return json.Unmarshal(text, into)
}
