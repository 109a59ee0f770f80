package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"sync"

	"cloister/internal/exactjson"
	"cloister/sandbox"
)

// Level is what setup writes down: where pods are made, and of what.
type Level struct {
	Instance   string `json:"instance"` // tells this person's pods from others', as a label
	Kubectl    string `json:"kubectl"`
	Kubeconfig string `json:"kubeconfig"`
	Context    string `json:"context,omitempty"`
	Namespace  string `json:"namespace"`
	Gate       string `json:"gate"`    // the gate's image
	Image      string `json:"image"`   // the agent's image
	Address    string `json:"address"` // of this host, as pods reach it
	// Class is the RuntimeClass of pods, of which the cluster's default is the empty one, and Kernel what
	// it gives them.
	Class  string `json:"class,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// Volume is the claim of the instance's own volume, and empty for none.
	Volume string `json:"volume,omitempty"`
	// Maker is what makes the pods: MakerPod, which is empty too, or MakerSandbox.
	Maker string `json:"maker,omitempty"`
	// Lent says that it is another instance's, and follows that.
	Lent bool `json:"lent,omitempty"`
}

var label = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) })

// Check refuses what no pod could be made of.
func (l Level) Check() error {
	switch {
	case !label().MatchString(l.Namespace):
		return fmt.Errorf("%q is no name of a namespace", l.Namespace)
	case !label().MatchString(l.Instance):
		return fmt.Errorf("%q is no label", l.Instance)
	case l.Gate == "" || l.Image == "":
		return errors.New("the gate's image and the agent's are needed")
	case net.ParseIP(l.Address) == nil:
		return fmt.Errorf("%q is no address of this host by numbers", l.Address)
	}
	if err := errors.Join(l.checkMaker(), l.checkVolume()); err != nil {
		return err
	}
	return l.checkClass()
}

// setting is the way to get what is missing.
const setting = "cloister setup kubernetes --help"

// Read reads a level, a refusal where none was set up.
func Read(path string) (l Level, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, &sandbox.Unsupported{Guarantee: "a cluster", Reason: "none was set up", Fix: setting}
	}
	if err == nil {
		err = exactjson.Unmarshal(text, &l)
	}
	if err == nil {
		err = l.Check()
	}
	if err != nil {
		return l, fmt.Errorf("read %s: %w", path, err)
	}
	return l, nil
}
