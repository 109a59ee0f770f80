package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/internal/termsafe"
	"cloister/sandbox"
	"cloister/sandbox/kubernetes/exact"
)

// Makers of pods.
const (
	MakerPod     = "pod"     // this program, by the API of pods
	MakerSandbox = "sandbox" // the controller of kubernetes-sigs/agent-sandbox, by a Sandbox of v1beta1
)

func (l Level) checkMaker() error {
	if !slices.Contains([]string{"", MakerPod, MakerSandbox}, l.Maker) {
		return fmt.Errorf("%q makes no pods: pod or sandbox", l.Maker)
	}
	return nil
}

// maker has pods made, and ends them.
type maker interface {
	// make has a pod made. What it gives holds that pod to what was asked for, later: nil where no
	// one is to be doubted.
	make(ctx context.Context, asked object) (hold func(pod []byte) error, err error)
	// remove ends pods, and what else was made for them.
	remove(ctx context.Context, names []string, flags ...string) error
}

func (d *Driver) maker() maker {
	if d.o.Level.Maker == MakerSandbox {
		return sandboxes{d}
	}
	return pods{d}
}

// pods is the maker that asks for pods.
type pods struct{ d *Driver }

func (p pods) make(ctx context.Context, asked object) (func([]byte) error, error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	return nil, p.d.o.Level.noClass(p.d.insist(ctx, text, "create", "--validate=false", "--filename=-"))
}

func (p pods) remove(ctx context.Context, names []string, flags ...string) error {
	return p.d.insist(ctx, nil, slices.Concat([]string{"delete", "pod"}, names, flags)...)
}

// sandboxes is the maker that asks for Sandboxes, of which a controller makes pods. That controller is not believed:
// its pod is looked at before anything is said to its gate, and again when it runs.
type sandboxes struct{ d *Driver }

// What a Sandbox is to the API, and to kubectl.
const (
	sandboxGroup   = "agents.x-k8s.io"
	sandboxVersion = sandboxGroup + "/v1beta1"
	sandboxKind    = "Sandbox"
	sandboxNames   = "sandboxes." + sandboxGroup
)

// podWithin bounds the wait for the pod of a Sandbox: a minute, or four times what a gate may be silent.
func (s sandboxes) podWithin() time.Duration { return 4 * cmp.Or(s.d.o.Look, 15*time.Second) }

// wrapped is the Sandbox whose pod is to be as it was asked for, without a service or volumes of its own.
func wrapped(asked object) object {
	of := asked["metadata"].(object)
	return object{
		"apiVersion": sandboxVersion, "kind": sandboxKind, "metadata": of,
		"spec": object{
			"operatingMode": "Running", "service": false,
			"podTemplate": object{"metadata": object{"labels": of["labels"]}, "spec": asked["spec"]},
		},
	}
}

func (s sandboxes) make(ctx context.Context, asked object) (func([]byte) error, error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	whole, err := json.Marshal(wrapped(asked))
	if err != nil {
		return nil, err
	}
	if err := s.d.insist(ctx, whole, "create", "--validate=false", "--filename=-"); err != nil {
		return nil, noSandboxes(err)
	}
	name := asked["metadata"].(object)["name"].(string)
	made, err := s.look(ctx, name)
	if err != nil {
		return nil, err
	}
	owner := exact.Owner{Group: sandboxGroup, Kind: sandboxKind, Name: name, UID: made.Metadata.UID}
	pod, err := s.await(ctx, name)
	if err != nil {
		return nil, err
	}
	uid := ""
	hold := func(pod []byte) error {
		var now status
		if err := json.Unmarshal(pod, &now); err != nil {
			return fmt.Errorf("look at the pod: %w", err)
		}
		wrong, err := exact.Differs(text, pod, "cloister/", owner)
		if uid == "" {
			uid = now.Metadata.UID
		}
		if err == nil && wrong == "" && now.Metadata.UID != uid {
			wrong = "it is another one"
		}
		if err != nil || wrong == "" {
			return err
		}
		return &sandbox.Unsupported{Guarantee: "a pod as it was asked for",
			Reason: "what agent-sandbox made differs in " + termsafe.Text(wrong),
			Fix:    "have the cluster's owner look at its controller, or have pods made by this program: --maker pod"}
	}
	return hold, hold(pod)
}

// noSandboxes makes a refusal that says that the cluster knows no Sandboxes one by name.
func noSandboxes(err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok || !strings.Contains(r.text, fmt.Sprintf("no matches for kind %q", sandboxKind)) {
		return err
	}
	return &sandbox.Unsupported{Guarantee: "pods by agent-sandbox",
		Reason: "the cluster has no Sandboxes of " + sandboxVersion,
		Fix:    "have the cluster's owner install agent-sandbox, or have pods made by this program: --maker pod"}
}

// look is the Sandbox as the API has it.
func (s sandboxes) look(ctx context.Context, name string) (now status, err error) {
	text, err := s.d.call(ctx, nil, "get", sandboxNames, name, "--output=json", "--request-timeout=5s")
	if err == nil {
		err = json.Unmarshal(text, &now)
	}
	if err != nil {
		return now, fmt.Errorf("look at the Sandbox: %w", err)
	}
	return now, nil
}

// await gives the pod of that name, when there is one.
func (s sandboxes) await(ctx context.Context, name string) ([]byte, error) {
	within, stop := context.WithTimeout(ctx, s.podWithin())
	defer stop()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		text, err := s.d.call(within, nil, "get", "pod", name, "--output=json", "--ignore-not-found", "--request-timeout=5s")
		if err == nil && len(text) > 0 {
			return text, nil
		}
		if err != nil && !slices.Contains(passing, reasonOf(err)) && within.Err() == nil {
			return nil, err
		}
		if wait(within, pause) != nil {
			break
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	why := "its Sandbox says nothing"
	if now, err := s.look(ctx, name); err == nil {
		for _, c := range now.Status.Conditions {
			if c.Type == "Ready" {
				why = (&reason{c.Reason, c.Message}).String()
			}
		}
	}
	return nil, fmt.Errorf("agent-sandbox made no pod within %v: %s", s.podWithin(), why)
}

// remove ends the Sandboxes first: their controller would make other pods.
func (s sandboxes) remove(ctx context.Context, names []string, flags ...string) error {
	err := s.d.insist(ctx, nil, slices.Concat([]string{"delete", sandboxNames}, names, flags)...)
	return errors.Join(err, pods(s).remove(ctx, names, flags...))
}
