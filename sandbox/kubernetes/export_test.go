package kubernetes

import (
	"encoding/json"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes/link"
)

// ErrLost is the error of a pod that is gone.
var ErrLost = errLost

// Described is the pod of a Spec, as JSON.
func Described(l Level, s sandbox.Spec) ([]byte, error) {
	p, err := planOf(s)
	if err == nil {
		err = p.hold(l)
	}
	if err != nil {
		return nil, err
	}
	pod, err := p.describe(l, link.Order{})
	if err != nil {
		return nil, err
	}
	return json.Marshal(pod)
}
