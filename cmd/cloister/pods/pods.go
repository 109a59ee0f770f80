// Package pods is the command about pods, and the driver that it sets up.
//
// The promise: what kubectl is and whose kubeconfig it reads is resolved once, at setup, and
// looked at before each call: neither may be what another user or a payload could have changed.
//
// It makes no pod itself: sandbox/kubernetes does. Most readers want [Command] and [Driver].
package pods

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"cloister/cmd/cloister/cli"
	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// Level is the word of --isolation.
const Level = "kubernetes"

// file is where setup writes the level down.
func file(d xdg.Dirs) string { return filepath.Join(d.Data, Level, "level.json") }

// Driver is that of the cluster that was set up.
func Driver(a *cli.App) (*kubernetes.Driver, error) {
	dirs, host, err := a.DirsAndResolver()
	if err != nil {
		return nil, err
	}
	l, err := kubernetes.Read(file(dirs))
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dirs.Runtime, "k")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	env := []string{"HOME=" + a.Home(), "PATH=" + host.Path(a.Env.Get("PATH"))}
	return kubernetes.New(kubernetes.Options{Level: l, Dir: folder, Env: env, Trusted: host.Trusted}), nil
}

// Lend gives an instance without a cluster of its own that of another, where its pods have a
// label of their own.
func Lend(from, to xdg.Dirs) error {
	l, err := kubernetes.Read(file(from))
	if _, none := errors.AsType[*sandbox.Unsupported](err); none {
		return nil
	}
	if err != nil {
		return err
	}
	l.Volume = "" // one tenant's files are no other's
	l.Lent, l.Instance = true, strings.ToLower(rand.Text())
	old, err := kubernetes.Read(file(to))
	if err == nil {
		if l.Instance = old.Instance; !old.Lent || old == l {
			return nil
		}
	} else if _, none := errors.AsType[*sandbox.Unsupported](err); !none {
		return err
	}
	return write(to, l)
}

// Source is the file that says what the pods of an instance are, which is another's where that lends its own.
func Source(from, to xdg.Dirs) string {
	if l, err := kubernetes.Read(file(to)); err == nil && !l.Lent {
		return file(to)
	}
	return file(from)
}

func write(d xdg.Dirs, l kubernetes.Level) error {
	text, err := exactjson.Marshal(l)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file(d)), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(file(d), text, 0o600)
}

// Sweep deletes what dead sessions left on the cluster, where one was set up.
func Sweep(ctx context.Context, a *cli.App, dirs xdg.Dirs, live []string) error {
	if _, err := os.Lstat(file(dirs)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d, err := Driver(a)
	if err != nil {
		return err
	}
	return d.Leftovers(ctx, live)
}

// Command is setup kubernetes.
func Command(a *cli.App) *cobra.Command {
	var l kubernetes.Level
	var manifests bool
	var image string
	c := &cobra.Command{
		Use:   Level,
		Short: "Say where the pods of --isolation kubernetes are made, and of what",
		Long: `Say where the pods of --isolation kubernetes are made, and of what (docs/kubernetes.md).
With --gate-image only write the image of the gate, as an archive in OCI's layout, for your
registry or nodes. With --manifests only print, as JSON for kubectl apply, what the cluster's
owner applies once: namespace, rights, network policy, admission policy.`,
		Example: "  cloister setup kubernetes --gate-image gate.tar\n" +
			"  cloister setup kubernetes --address 10.0.0.5 --image debian:12 --gate registry.example/gate@sha256:…",
		Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			switch {
			case image != "":
				return writeGate(a, image)
			case manifests:
				l.Instance, l.Kernel = "any", cmp.Or(l.Kernel, kubernetes.KernelOf(l.Class))
				text, err := l.Manifests()
				if err != nil {
					return wrong(err)
				}
				return a.JSON(json.RawMessage(text))
			}
			return writeLevel(a, l)
		},
	}
	fl := c.Flags()
	fl.StringVar(&l.Namespace, "namespace", "cloister", "the `NAMESPACE` of the pods")
	fl.StringVar(&l.Gate, "gate", "", "the `IMAGE` of the gate, by digest")
	fl.StringVar(&l.Image, "image", "", "the `IMAGE` of the agent")
	fl.StringVar(&l.Address, "address", "", "the `ADDRESS` of this host, as pods reach it")
	fl.StringVar(&l.Context, "context", "", "the `CONTEXT` of the kubeconfig, instead of its current one")
	fl.StringVar(&l.Volume, "volume", "", "a volume at /work of the pods, by the `CLAIM` that the cluster's owner made")
	fl.StringVar(&l.Class, "runtime-class", "", "the RuntimeClass of the pods, by `NAME`")
	fl.StringVar(&l.Kernel, "runtime-kernel", "",
		"what that class gives them, which each start proves: `gvisor`, kata or node")
	fl.StringVar(&l.Maker, "maker", "",
		"what makes the pods: `pod`, this program, or sandbox, the controller of agent-sandbox")
	fl.StringVar(&image, "gate-image", "", "write the image of the gate to a `FILE`")
	fl.BoolVar(&manifests, "manifests", false, "print what the owner of the cluster applies")
	return c
}

func wrong(err error) error {
	return cli.Usage("cloister setup kubernetes --help", "setup kubernetes: %v", err)
}

// writeLevel writes the level down, with the kubectl and the kubeconfig of this moment.
func writeLevel(a *cli.App, l kubernetes.Level) error {
	dirs, host, err := a.DirsAndResolver()
	if err != nil {
		return err
	}
	l.Instance, l.Kernel = strings.ToLower(rand.Text()), cmp.Or(l.Kernel, kubernetes.KernelOf(l.Class))
	if old, err := kubernetes.Read(file(dirs)); err == nil {
		l.Instance = old.Instance // its pods stay its own
	}
	if err := l.Check(); err != nil {
		return wrong(err)
	}
	kubectl, err := host.Program("kubectl", a.Env.Get("PATH"))
	if err != nil {
		return cli.Hinted(fmt.Errorf("setup kubernetes: %w", err), "install kubectl")
	}
	l.Kubectl = kubectl.Path
	l.Kubeconfig, err = filepath.Abs(cmp.Or(a.Env.Get("KUBECONFIG"), filepath.Join(a.Home(), ".kube", "config")))
	if err == nil {
		err = host.Trusted(l.Kubeconfig)
	}
	if err != nil {
		return cli.Hinted(fmt.Errorf("setup kubernetes: read the kubeconfig: %w", err), "name it: KUBECONFIG=FILE")
	}
	if err := write(dirs, l); err != nil {
		return err
	}
	a.Line("use it: cloister run --isolation kubernetes --workspace overlay -- COMMAND")
	return nil
}

// writeGate writes the gate's image, which is this program.
func writeGate(a *cli.App, to string) (err error) {
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return err
	}
	if to, err = host.TypedNew(to); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	digest, err := kubernetes.WriteImage(f, "/proc/self/exe", "cloister.invalid/gate:latest")
	if err == nil {
		a.Line("%s", digest)
	}
	return err
}
