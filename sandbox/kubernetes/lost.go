package kubernetes

import (
	"context"
	"encoding/json"
	"time"

	"cloister/internal/termsafe"
)

// Bounds of what is asked about a pod that is lost, and of the wait for its end, which a node that
// is lost never confirms.
const (
	whyWithin  = 20 * time.Second // of kubectl whole; the server has 5 s of it
	lostWithin = "--timeout=20s"
)

// condition is one of a pod's.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// why says what the cluster knows of a pod whose gate is gone; empty for nothing.
func (d *Driver) why(ctx context.Context, name string) string {
	ctx, stop := context.WithTimeout(ctx, whyWithin)
	defer stop()
	text, err := d.call(ctx, nil, "get", "pod", name, "--output=json", "--request-timeout=5s")
	var s status
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return "; the cluster does not say why"
	}
	if over := s.over(); over != "" {
		return ": " + over
	}
	for _, c := range s.Status.Conditions {
		if c.Type == "DisruptionTarget" && c.Status == "True" {
			return ": " + (&reason{c.Reason, c.Message}).String()
		}
	}
	if s.runs() && s.Spec.Node != "" {
		return ": the cluster has it as running still, on the node " + termsafe.Text(s.Spec.Node)
	}
	return ""
}
