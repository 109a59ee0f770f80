package e2b

import (
	"context"
	"net/http"

	"cloister/serve"
	"cloister/serve/e2b/answer"
	"cloister/serve/e2b/wire"
)

// setNetwork changes what may leave a sandbox, within what the tenant's policy allows.
func (d *Door) setNetwork(w http.ResponseWriter, r *http.Request, t caller) error {
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err != nil {
		return err
	}
	var q wire.Update
	if err := answer.Read(w, r, &q); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
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
