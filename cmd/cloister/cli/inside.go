package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/workspace/toolchain"
)

// SelfInside runs this program in a cloister that shows nothing of a project, and gives
// what it printed, of which there is no more than most. The error is what went wrong in one
// line.
func (a *App) SelfInside(ctx context.Context, flags []string, most int, args ...string) ([]byte, error) {
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
