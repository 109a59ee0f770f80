package e2b

import (
	"context"
	"net/http"

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
