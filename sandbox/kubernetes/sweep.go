package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cloister/sandbox"
)

// Leftovers deletes the pods of this instance whose sessions are over: what a shim that was
// killed left. Without its shim the gate of such a pod has ended, and the agent with it.
func (d *Driver) Leftovers(ctx context.Context, live []string) error {
	text, err := d.call(ctx, nil, "get", "pods", "--output=json", "--request-timeout=20s",
		"--selector="+labelInstance+"="+d.o.Level.Instance)
	if err != nil {
		return err
	}
	var pods struct {
		Items []status `json:"items"`
	}
	if err := json.Unmarshal(text, &pods); err != nil {
		return fmt.Errorf("read the cluster's pods: %w", err)
	}
	for _, p := range pods.Items {
		of := p.Metadata.Labels[labelSession]
		if slices.ContainsFunc(live, func(id string) bool { return strings.EqualFold(id, of) }) {
			continue
		}
		err := d.insist(ctx, nil, "delete", "pod", p.Metadata.Name, "--ignore-not-found", "--wait=false", "--grace-period=1")
		if err != nil {
			return err
		}
	}
	return nil
}

// Probe says what a pod is held by; whether the cluster obeys each start finds out.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	add := func(name, by string, err error, fix string) {
		g := sandbox.Guarantee{Name: name, By: by, Level: sandbox.Enforced, Needed: true, Evidence: "pods may be made there"}
		if err != nil {
			g.Level, g.Evidence, g.Fix = sandbox.Absent, err.Error(), fix
		}
		r.Guarantees = append(r.Guarantees, g)
	}
	_, err := d.call(ctx, nil, "auth", "can-i", "create", "pods", "--quiet", "--request-timeout=5s")
	add("enclosure", "pods of the namespace "+d.o.Level.Namespace, err,
		"apply what this prints: cloister setup kubernetes --manifests")
	return r
}
