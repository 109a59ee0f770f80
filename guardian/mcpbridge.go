package guardian

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/host/resolve"
	"cloister/hostexec"
	"cloister/internal/authority"
	"cloister/internal/termsafe"
	"cloister/mcp"
	"cloister/policy"
)

// bridges are the MCP servers that run on the host for this session, by where they
// are reached. Each starts when the first connects, and ends with the session.
func (l *live) bridges() map[authority.Authority]func(net.Conn) {
	var out map[authority.Authority]func(net.Conn)
	for _, s := range l.Scope.Load().Servers {
		if len(s.Command) == 0 {
			continue
		}
		at, _, err := s.Address()
		if err != nil {
			continue // it was checked when it was read
		}
		b := &mcp.Bridge{
			Name: s.Name,
			Make: func() (*exec.Cmd, error) { return l.serverCommand(s) },
			Hold: l.g.hold,
			Log: func(text string) {
				l.g.log.Info("MCP server", "session", l.Info.Name, "server", s.Name, "says", termsafe.Clip(text, 1024))
			},
			// What it calls the guardian for is no person's, as with a host command.
			Began: l.g.host.Began,
			Ended: l.g.host.Ended,
		}
		if out == nil {
			out = map[authority.Authority]func(net.Conn){}
		}
		out[at] = func(c net.Conn) { l.served.Go(func() { b.Serve(l.ctx, c) }) }
		l.served.Go(func() {
			<-l.ctx.Done()
			b.Close()
		})
	}
	return out
}

// hold puts a server under the helper that keeps host commands: whatever it starts,
// also what leaves its group and its parent, stays below this process, so that
// nothing of it is taken for a person, and ends with it.
func (g *guardian) hold(c *exec.Cmd) (*exec.Cmd, mcp.Holder, error) {
	if len(g.o.Helper) == 0 {
		return nil, nil, errors.New("there is no helper that could hold it")
	}
	kept, leash, err := hostexec.Under(g.ctx, g.o.Helper, c)
	if err != nil {
		return nil, nil, err
	}
	return kept, leash, nil
}

// serverCommand is the command of a server, recorded before it starts. It runs in /
// with an environment of its own, so that no file of a project has a say in it; and
// neither its program nor a file in its arguments is one that a cloister could have
// written.
func (l *live) serverCommand(s config.MCPServer) (*exec.Cmd, error) {
	host, err := l.g.o.resolver()()
	if err != nil {
		return nil, fmt.Errorf("start the MCP server %s: %w", s.Name, err)
	}
	env := map[string]string{}
	for _, e := range host.Environment(l.g.o.HostEnv) {
		if key, value, _ := strings.Cut(e, "="); key == "PATH" || key == "HOME" || key == "LANG" {
			env[key] = value
		}
	}
	program, err := l.serverProgram(host, s.Command[0], env["PATH"])
	if err != nil {
		return nil, fmt.Errorf("start the MCP server %s: %w", s.Name, err)
	}
	for _, a := range s.Command[1:] {
		if file := l.writableIn(a); file != "" {
			return nil, fmt.Errorf("start the MCP server %s: %s lies where the cloister can write", s.Name, file)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		for _, part := range filepath.SplitList(s.Env[key]) { // also of PYTHONPATH and its like
			if file := l.writableIn(part); file != "" {
				return nil, fmt.Errorf("start the MCP server %s: %s of its variable %s lies where the cloister can write", s.Name,
					file, key)
			}
		}
	}
	e := l.Event()
	e.Kind, e.Action, e.Resource, e.Verdict = audit.MCPCall, "start", s.Name, policy.Allow.String()
	e.Rule = fmt.Sprintf("mcp.servers (%s:%d)", s.Place.File, s.Place.Line)
	e.Reason = "the person's own server, on the host: " + strings.Join(append([]string{program}, s.Command[1:]...), " ")
	if err := l.Records.Append(l.ctx, e); err != nil {
		return nil, api.Unrecorded("start the MCP server "+s.Name, err)
	}
	maps.Copy(env, s.Env)
	c := exec.CommandContext(context.WithoutCancel(l.ctx), program, s.Command[1:]...) // the bridge ends it
	c.Dir, c.Env = "/", []string{}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, key+"="+env[key])
	}
	return c, nil
}

// serverProgram finds a program in the folders of PATH, or by its whole path.
func (l *live) serverProgram(host *resolve.Resolver, name, path string) (string, error) {
	p, err := host.Program(name, path)
	if err != nil {
		return "", err
	}
	for _, f := range []string{p.Path, p.Real} {
		if l.writes(f) {
			return "", fmt.Errorf("%s lies where the cloister can write", f)
		}
	}
	return p.Path, nil
}

// writableIn is a file that an argument names where the cloister can write; empty
// for none. It may name one as a whole, from / where the server runs, or from its
// first slash on, as in --config=/a/b.
func (l *live) writableIn(arg string) string {
	files := []string{filepath.Join("/", arg)}
	if i := strings.IndexByte(arg, '/'); i > 0 {
		files = append(files, filepath.Clean(arg[i:]))
	}
	for _, file := range files {
		if l.writes(file) {
			return file
		}
		if real, err := filepath.EvalSymlinks(file); err == nil && l.writes(real) {
			return real
		}
	}
	return ""
}

// writes reports whether a clean path is in a folder that the cloister can write.
func (l *live) writes(file string) bool {
	return slices.ContainsFunc(append(slices.Clone(l.foreign), l.Info.Project, cmp.Or(l.Info.Path, l.Info.Project)),
		func(dir string) bool {
			return file == dir || strings.HasPrefix(file, dir+"/")
		})
}
