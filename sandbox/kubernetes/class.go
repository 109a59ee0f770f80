package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes/pod"
)

// The kernels that a RuntimeClass may give the pods. Which one a class has its name does not say for
// sure, so whoever names a class says it, and each start finds out.
const (
	KernelNode   = "node" // the node's own, by another runtime
	KernelGVisor = pod.KernelGVisor
	KernelKata   = pod.KernelKata
)

var className = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
})

// KernelOf is the kernel that classes of a name have by custom; empty for a name that says none.
func KernelOf(class string) string {
	switch {
	case strings.HasPrefix(class, "gvisor"), strings.HasPrefix(class, "runsc"):
		return KernelGVisor
	case strings.HasPrefix(class, "kata"):
		return KernelKata
	}
	return ""
}

func (l Level) checkClass() error {
	switch {
	case l.Class == "" && l.Kernel == "":
		return nil
	case l.Class == "":
		return fmt.Errorf("a kernel %q is of no RuntimeClass", l.Kernel)
	case !className().MatchString(l.Class):
		return fmt.Errorf("%q is no name of a RuntimeClass", l.Class)
	case !slices.Contains([]string{KernelNode, KernelGVisor, KernelKata}, l.Kernel):
		return fmt.Errorf("the RuntimeClass %s needs a kernel to be proven: gvisor, kata or node", l.Class)
	}
	return nil
}

// noClass makes a refusal that says that the cluster has no such RuntimeClass one by name.
func (l Level) noClass(err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok || l.Class == "" || !strings.Contains(r.text, fmt.Sprintf("RuntimeClass %q not found", l.Class)) {
		return err
	}
	return &sandbox.Unsupported{Guarantee: "the RuntimeClass " + l.Class, Reason: "the cluster has none of that name",
		Fix: "have the cluster's owner add it, or name one that kubectl get runtimeclasses lists: " + setting}
}

// late says what may be the matter with a start for which there was no time.
func (l Level) late(err error) error {
	if l.Class == "" || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: a node may have no runtime for the RuntimeClass %s", err, l.Class)
}

// held says what of the RuntimeClass that was asked for a pod does not have; empty for nothing. The
// API server's word is what was asked of the node, and the kernel inside is what came of it.
func (l Level) held(has string, seen pod.Canary) string {
	switch {
	case l.Class == "": // the cluster's own choice
		return ""
	case has != l.Class:
		return fmt.Sprintf("the pod has the RuntimeClass %q, and %q was asked for", has, l.Class)
	case l.Kernel != KernelNode && seen.Kernel != l.Kernel:
		return fmt.Sprintf("the RuntimeClass %s gave the pod no kernel of %s", l.Class, l.Kernel)
	}
	return ""
}
