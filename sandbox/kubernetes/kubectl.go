package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"cloister/internal/termsafe"
	"cloister/sandbox"
)

// Options are what the driver needs to know.
type Options struct {
	Level Level
	// Dir is the folder of this instance's sockets.
	Dir string
	// Env is kubectl's whole environment, which what its kubeconfig calls has too.
	Env []string
	// Trusted refuses a program that another user or a payload could have changed.
	Trusted func(path string) error
	// Look is how long nothing comes from a gate before it is asked whether it is there, and how long
	// it may take to answer; 0 is a quarter of a minute.
	Look time.Duration
}

// Driver makes pods.
type Driver struct{ o Options }

// New gives the driver. It reaches nothing yet.
func New(o Options) *Driver { return &Driver{o} }

// Name is "kubernetes".
func (*Driver) Name() string { return "kubernetes" }

// What this driver is besides.
var (
	_ sandbox.Elsewhere   = (*Driver)(nil)
	_ sandbox.SlowStarter = (*Driver)(nil)
)

// OnAnotherHost says that pods are on nodes.
func (*Driver) OnAnotherHost() {}

// StartWithin bounds a start, for which a cluster may fetch images.
func (*Driver) StartWithin() time.Duration { return 2 * time.Minute }

// kubectl is one call.
func (d *Driver) kubectl(ctx context.Context, args ...string) (*exec.Cmd, error) {
	for _, path := range []string{d.o.Level.Kubectl, d.o.Level.Kubeconfig} { // the second names programs too
		if err := d.o.Trusted(path); err != nil {
			return nil, fmt.Errorf("run kubectl: %w", err)
		}
	}
	flags := []string{"--kubeconfig=" + d.o.Level.Kubeconfig, "--namespace=" + d.o.Level.Namespace}
	if d.o.Level.Context != "" {
		flags = append(flags, "--context="+d.o.Level.Context)
	}
	cmd := exec.CommandContext(ctx, d.o.Level.Kubectl, append(flags, args...)...)
	cmd.Env, cmd.Dir = d.o.Env, "/"
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	// A signal of the terminal is for the shim, who passes on what is to be passed on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}

// call is one whose answer is read.
func (d *Driver) call(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	cmd, err := d.kubectl(ctx, args...)
	if err != nil {
		return nil, err
	}
	var out, said bounded
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	if err := cmd.Run(); err != nil {
		if out.over || said.over {
			return nil, fmt.Errorf("kubectl %s: the answer has more than %d bytes", args[0], maxAnswer)
		}
		if why := context.Cause(ctx); why != nil {
			return nil, why
		}
		if text := strings.TrimSpace(said.text.String()); text != "" {
			return out.text.Bytes(), &refusal{args[0], text}
		}
		return out.text.Bytes(), fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return out.text.Bytes(), nil
}

// maxAnswer bounds what is read of a server's answer: a page of pods has a hundredth of it, as a rule.
const maxAnswer = 256 << 20

// bounded keeps an answer. One that is longer ends kubectl. The buffer is no embedded one, whose ReadFrom
// would take all.
type bounded struct {
	text bytes.Buffer
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || b.text.Len()+len(p) > maxAnswer; b.over {
		return 0, errors.New("the answer is too long")
	}
	return b.text.Write(p)
}

// refusal is what kubectl said.
type refusal struct{ verb, text string }

func (r *refusal) Error() string {
	first, _, _ := strings.Cut(r.text, "\n")
	return "kubectl " + r.verb + ": " + termsafe.Text(strings.TrimPrefix(first, "error: "))
}

// status is what of a pod is looked at.
type status struct {
	text     []byte // all of it, where it is watched
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		Class string `json:"runtimeClassName"`
		Node  string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string      `json:"phase"`
		Why   string      `json:"reason"`
		Text  string      `json:"message"`
		Init  []container `json:"initContainerStatuses"`
		Main  []container `json:"containerStatuses"`

		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type container struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	State state  `json:"state"`
	Last  state  `json:"lastState"`
}

type state struct {
	Waiting    *reason         `json:"waiting"`
	Running    json.RawMessage `json:"running"`
	Terminated *reason         `json:"terminated"`
}

type reason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (r *reason) String() string {
	first, _, _ := strings.Cut(strings.TrimSpace(r.Message), "\n")
	if first == "" {
		first = r.Reason
	}
	return termsafe.Text(first)
}

// hopeless are the reasons for which a container that waits waits in vain.
var hopeless = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// over says why a pod will not run, or does not any more; empty while it may.
func (s status) over() string {
	for _, c := range append(append([]container{}, s.Status.Init...), s.Status.Main...) {
		for _, t := range []*reason{c.State.Terminated, c.Last.Terminated} {
			if t != nil {
				return "its container " + termsafe.Text(c.Name) + " ended: " + t.String()
			}
		}
		if w := c.State.Waiting; w != nil && slices.Contains(hopeless, w.Reason) {
			return "its container " + termsafe.Text(c.Name) + " does not start: " + w.Reason + ": " + w.String()
		}
	}
	if s.Status.Phase == "Failed" || s.Status.Phase == "Succeeded" {
		r := reason{s.Status.Why, s.Status.Text}
		return "it is over: " + r.String()
	}
	return ""
}

// runs reports whether the agent's container does.
func (s status) runs() bool {
	for _, c := range s.Status.Main {
		if c.Name == agentName && c.State.Running != nil {
			return true
		}
	}
	return false
}

// errLost says that the pod is not what it was any more.
var errLost = errors.New("the pod is lost")

// watch tells what becomes of a pod until until says that it is enough. A watch that the
// cluster ends is begun again; one that it refuses is an error.
func (d *Driver) watch(ctx context.Context, pod string, until func(status) bool) error {
	for {
		done, err := d.watchOnce(ctx, pod, until)
		if done || err != nil {
			return err
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (d *Driver) watchOnce(ctx context.Context, pod string, until func(status) bool) (done bool, err error) {
	own, stop := context.WithCancel(ctx)
	defer stop()
	cmd, err := d.kubectl(own, "get", "pod", pod, "--output=json", "--watch")
	if err != nil {
		return false, err
	}
	var said bytes.Buffer
	r, w, err := os.Pipe()
	if err != nil {
		return false, err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, &said
	err = cmd.Start()
	w.Close()
	if err != nil {
		return false, err
	}
	list := json.NewDecoder(io.LimitReader(r, maxAnswer)) // a longer watch is begun again
	for {
		var text json.RawMessage
		if err := list.Decode(&text); err != nil {
			break // ended, by either side
		}
		s := status{text: text}
		if err := json.Unmarshal(text, &s); err != nil {
			break
		}
		if until(s) {
			done = true
			break
		}
	}
	stop()
	_, _ = io.Copy(io.Discard, r) // until it has ended
	_ = cmd.Wait()                // a watch that ended is begun again
	if done {
		return true, nil
	}
	if strings.Contains(said.String(), "NotFound") {
		return false, fmt.Errorf("%w: the cluster has none of the name %s", errLost, pod)
	}
	return false, context.Cause(ctx)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
