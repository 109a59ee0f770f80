package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"cloister/serve"
)

// egressWire is what may leave a sandbox, as both requests have it.
type egressWire struct {
	AllowOut    []string            `json:"allowOut"`
	DenyOut     []string            `json:"denyOut"`
	EgressProxy *struct{}           `json:"egressProxy"`
	Rules       map[string]struct{} `json:"rules"`
}

// networkWire is what of a request for a sandbox is about the network.
type networkWire struct {
	egressWire
	AllowPublicTraffic *bool  `json:"allowPublicTraffic"`
	MaskRequestHost    string `json:"maskRequestHost"`
}

// Names of the members of both. One that is none of them is refused: a denial whose name is misspelt
// would take nothing away, and be answered as if it did.
var (
	egressNames  = []string{"allowOut", "denyOut", "egressProxy", "rules"}
	networkNames = append([]string{"allowPublicTraffic", "maskRequestHost", "httpsPorts"}, egressNames...)
	updateNames  = append([]string{"allow_internet_access"}, egressNames...)
)

// UnmarshalJSON reads the network of a request for a sandbox.
func (q *networkWire) UnmarshalJSON(text []byte) error {
	type plain networkWire
	return exactly(text, networkNames, (*plain)(q))
}

// UnmarshalJSON reads a request to change the network.
func (q *updateWire) UnmarshalJSON(text []byte) error {
	type plain updateWire
	return exactly(text, updateNames, (*plain)(q))
}

// exactly reads an object whose members have names of a list, each once and as it is written there.
func exactly(text []byte, names []string, into any) error {
	if string(text) == "null" {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("network: want an object")
	}
	var seen []string
	for in.More() {
		token, err := in.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if !slices.Contains(names, name) {
			return fmt.Errorf("network: cloister serve knows no %q", clip(name))
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

// updateWire is a request to change the network of a sandbox that runs. What it leaves out
// is taken back.
type updateWire struct {
	egressWire
	Internet *bool `json:"allow_internet_access"`
}

func (q egressWire) check() error {
	if q.EgressProxy != nil || len(q.Rules) > 0 {
		return &serve.BadRequest{What: "network: egressProxy and rules: cloister serve has none"}
	}
	return nil
}

// setNetwork changes what may leave a sandbox, within what the tenant's policy allows.
func (d *Door) setNetwork(w http.ResponseWriter, r *http.Request, t caller) error {
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err != nil {
		return err
	}
	var q updateWire
	if err := read(w, r, &q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	n := serve.Network{Off: q.Internet != nil && !*q.Internet, AllowOut: q.AllowOut, DenyOut: q.DenyOut}
	// What was begun is finished, whether or not the client waits.
	if err := s.SetNetwork(context.WithoutCancel(r.Context()), n); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
