package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes/tree"
)

// VolumeAt is where a pod has the instance's volume. The project of --workspace overlay lies there
// otherwise.
const VolumeAt = "/work"

var claimName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
})

func (l Level) checkVolume() error {
	if l.Volume != "" && !claimName().MatchString(l.Volume) {
		return fmt.Errorf("%q is no name of a claim", l.Volume)
	}
	return nil
}

// hold gives a pod its instance's volume. Its size is the claim's, and who made that is the cluster's
// owner: nothing of this host is in it, and nothing of it comes to this host.
func (p *plan) hold(l Level) error {
	if l.Volume == "" {
		return nil
	}
	_, also := p.also[VolumeAt]
	if also || slices.ContainsFunc(p.trees, func(t tree.Tree) bool { return t.Target == VolumeAt }) {
		return &sandbox.Unsupported{Guarantee: "a copy of the project",
			Reason: "pods have a volume at " + VolumeAt,
			Fix:    "use --workspace none, or set pods up without --volume"}
	}
	p.volume = l.Volume
	return nil
}

// claimed are the volume and its mount in the agent's container; the gate has none of it.
func (p *plan) claimed() (mounts, volumes []object) {
	if p.volume == "" {
		return nil, nil
	}
	return []object{{"name": "work", "mountPath": VolumeAt}},
		[]object{{"name": "work", "persistentVolumeClaim": object{"claimName": p.volume}}}
}

// ownVolumes is what the admission policy lets a pod have.
func (l Level) ownVolumes() string {
	own := "has(v.emptyDir)"
	if l.Volume != "" {
		// Never as the gate's own volume: a claim can be a second volume too, which the agent's container writes to.
		own += " || (has(v.persistentVolumeClaim) && v.name != 'cloister' && " +
			fmt.Sprintf("v.persistentVolumeClaim.claimName == %q)", l.Volume)
	}
	return "!has(object.spec.volumes) || object.spec.volumes.all(v, " + own + ")"
}
