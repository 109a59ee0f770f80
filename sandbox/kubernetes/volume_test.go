package kubernetes_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// TestVolume: the agent's container has the instance's volume at /work, the gate has none of it, and
// the admission policy lets that claim pass and no other.
func TestVolume(t *testing.T) {
	l := kubernetes.Level{Instance: "me", Namespace: "agents", Gate: "gate@sha256:1", Image: "agent", Address: "10.0.0.1",
		Volume: "files"}
	s := sandbox.Spec{ID: "S", Name: "n", Argv: []string{"true"}, Network: true,
		User: sandbox.User{ID: 1000, Name: "agent", Home: "/h"}}
	text, err := kubernetes.Described(l, s)
	if err != nil {
		t.Fatal(err)
	}
	type container struct {
		VolumeMounts []struct{ Name, MountPath string }
	}
	var pod struct {
		Spec struct {
			InitContainers, Containers []container
			Volumes                    []struct {
				Name                  string
				PersistentVolumeClaim struct{ ClaimName string }
			}
			SecurityContext struct{ FSGroup int }
		}
	}
	if err := json.Unmarshal(text, &pod); err != nil {
		t.Fatal(err)
	}
	mounted := func(c container) (out string) {
		for _, m := range c.VolumeMounts {
			if m.Name == "work" {
				out += m.MountPath
			}
		}
		return out
	}
	claims := ""
	for _, v := range pod.Spec.Volumes {
		claims += v.PersistentVolumeClaim.ClaimName
	}
	if claims != "files" || mounted(pod.Spec.Containers[0]) != "/work" || mounted(pod.Spec.InitContainers[0]) != "" ||
		pod.Spec.SecurityContext.FSGroup != 1000 {
		t.Errorf("%s", text)
	}
	rule := `v.persistentVolumeClaim.claimName == \\\"files\\\"`
	if text, err := l.Manifests(); err != nil || !strings.Contains(string(text), strings.ReplaceAll(rule, `\\\`, `\`)) ||
		!strings.Contains(string(text), "v.name != 'cloister'") { // which is the gate's
		t.Errorf("no rule of admission about the claim: %v", err)
	}
	l.Volume = ""
	if text, err := l.Manifests(); err != nil || strings.Contains(string(text), "persistentVolumeClaim") {
		t.Errorf("a claim may pass: %v", err)
	}
	l.Volume = "files"
	s.Binds = []sandbox.Bind{{Source: "/srv", Target: "/srv/p", Access: sandbox.ReadWrite, Overlay: true}}
	s.Links = []sandbox.Link{{Path: "/work", Target: "/srv/p"}}
	_, err = kubernetes.Described(l, s)
	if u, ok := errors.AsType[*sandbox.Unsupported](err); !ok || !strings.Contains(u.Fix, "--workspace none") {
		t.Errorf("a copy at the volume's place: %v", err)
	}
	for _, name := range []string{"A", "a b", "-x", "../x", "x/y"} {
		l.Volume = name
		if l.Check() == nil {
			t.Errorf("%q is a claim", name)
		}
	}
}
