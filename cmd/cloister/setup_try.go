package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	"cloister/agent"
	"cloister/agent/probe"
	"cloister/cmd/cloister/cli"
	"cloister/internal/realpath"
	"cloister/workspace/toolchain"
)

// try sends one request with the agent's credential from inside a cloister of this
// project, and says what came of it. An error means that the credential was refused;
// whatever else is in the way is shown, and left to the person.
func (a *app) try(ctx context.Context, login agent.Credential) error {
	if login.Check == "" {
		return nil
	}
	p, why := a.tryInside(ctx, login)
	switch {
	case why != "":
		a.Notice("not tried: %s", why)
	case p.Ours:
		a.Notice("the border refuses it: %s", p.Error)
		a.Notice("hint: cloister policy explain %s", login.Host)
	case p.Status == 0:
		a.Notice("not tried: %s cannot be reached: %s", login.Host, p.Error)
	case p.Status >= 200 && p.Status < 300:
		a.Line("tried: %s takes the credential", login.Host)
	case p.Status == http.StatusBadRequest, p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		err := fmt.Errorf("setup: %s refuses the credential: %d %s", login.Host, p.Status, http.StatusText(p.Status))
		return cli.Hinted(err, login.Get)
	default:
		a.Notice("tried: %s answers %d %s, which says nothing of the credential",
			login.Host, p.Status, http.StatusText(p.Status))
	}
	return nil
}

// tryInside runs this program in a cloister that shows nothing of the project.
func (a *app) tryInside(ctx context.Context, login agent.Credential) (p probe.Answer, why string) {
	format := login.Format
	if format == "" {
		format = "{}"
	}
	out, err := a.selfInside(ctx, nil, mostProbed, append([]string{probe.Name, "https://" + login.Host + login.Check,
		login.Header + ": " + strings.Replace(format, "{}", "{$"+login.Secret+"}", 1)}, login.With...)...)
	if json.Unmarshal(out, &p) == nil {
		return p, ""
	}
	if err == nil {
		err = errors.New("no answer")
	}
	return p, err.Error()
}

// mostProbed bounds the answer of a probe.
const mostProbed = 1 << 20

// selfInside runs this program in a cloister that shows nothing of a project, and gives
// what it printed, of which there is no more than most. The error is what went wrong in one
// line.
func (a *app) selfInside(ctx context.Context, flags []string, most int, args ...string) ([]byte, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = realpath.Of(self)
	}
	if err != nil {
		return nil, err
	}
	words := append([]string{"run", "--workspace", "none"}, flags...)
	if !inSystem(self) {
		words = append(words, "--expose", self)
	}
	c := exec.CommandContext(ctx, self, slices.Concat(words, []string{"--", self}, args)...)
	var problem bytes.Buffer
	out := &boundedAnswer{most: most}
	c.Stdout, c.Stderr = out, &problem
	for name, value := range a.Env {
		c.Env = append(c.Env, name+"="+value)
	}
	err = c.Run()
	if out.over {
		return nil, fmt.Errorf("its answer has more than %d MiB", most>>20)
	}
	if err == nil {
		return out.Bytes(), nil
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(problem.String()), "\n"); first != "" {
		err = errors.New(strings.TrimPrefix(first, "cloister: "))
	}
	return out.Bytes(), err
}

// boundedAnswer keeps so many bytes of what is written to it, and knows of more.
type boundedAnswer struct {
	bytes.Buffer
	most int
	over bool
}

func (s *boundedAnswer) Write(p []byte) (int, error) {
	if s.over = s.over || s.Len()+len(p) > s.most; s.over {
		return 0, errors.New("too much")
	}
	return s.Buffer.Write(p)
}

// inSystem reports whether every cloister sees a path of the host.
func inSystem(path string) bool {
	for _, dir := range toolchain.System {
		if realpath.Inside(path, dir) {
			return true
		}
	}
	return false
}
