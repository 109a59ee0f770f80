package guardian

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/folders"
	"cloister/guardian/records"
	"cloister/internal/peercred"
	"cloister/internal/termsafe"
	"cloister/session/launch"
	"cloister/session/terminal"
	"cloister/ui/web"
	"cloister/workspace"
)

const (
	// shimWithin is how long a cloister that the window starts may take, and
	// probeWithin how long doctor may.
	shimWithin, probeWithin = 60 * time.Second, 60 * time.Second
	// maxTyped bounds one message of a terminal in a browser, in bytes.
	maxTyped = 64 << 10
)

// getDoctor answers with what a process of its own found out. That something is wrong is
// an answer.
func (g *guardian) getDoctor(_ http.ResponseWriter, r *http.Request) (any, error) {
	if len(g.o.Probe) == 0 {
		return nil, api.BadRequest("this guardian cannot find out what doctor does")
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.o.Probe[0], g.o.Probe[1:]...)
	cmd.Env, cmd.Dir = g.o.Shim.Env, "/"
	cmd.WaitDelay = 2 * time.Second // what it started in the background may keep its pipes
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	g.own.Store(cmd.Process.Pid, struct{}{})
	err := cmd.Wait()
	g.own.Delete(cmd.Process.Pid)
	if json.Valid(stdout.Bytes()) {
		return json.RawMessage(stdout.Bytes()), nil
	}
	if err == nil {
		err = errors.New("it printed no answer")
	}
	return nil, fmt.Errorf("doctor: %w: %s", err, termsafe.Text(termsafe.Clip(stderr.String(), records.MaxShown)))
}

// getProjects lists the projects that had a cloister, the latest first: where the
// window may start another.
func (g *guardian) getProjects(http.ResponseWriter, *http.Request) (any, error) {
	list := g.sessions.List(true)
	slices.SortStableFunc(list, func(a, b api.SessionInfo) int { return b.CreatedAt.Compare(a.CreatedAt) })
	projects := []string{}
	for _, s := range list {
		if !slices.Contains(projects, s.Project) {
			projects = append(projects, s.Project)
		}
	}
	return projects, nil
}

var (
	agentName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`) })
	branchName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}$`) })
)

// postStart starts a cloister of an agent, or finds the one that runs, in a project that
// a person has used before.
func (g *guardian) postStart(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.StartRequest](r)
	if err != nil {
		return nil, err
	}
	known := slices.ContainsFunc(g.sessions.List(true), func(s api.SessionInfo) bool { return s.Project == req.Project })
	switch {
	case !known || !filepath.IsAbs(req.Project):
		return nil, api.BadRequest("start: no cloister ran in %q before: begin there with cloister start",
			termsafe.Clip(req.Project, 200))
	case req.Agent != "" && !agentName().MatchString(req.Agent):
		return nil, api.BadRequest("start: %q is not the name of an agent", termsafe.Clip(req.Agent, 64))
	case req.Branch != "" && (!branchName().MatchString(req.Branch) || strings.Contains(req.Branch, "..")):
		return nil, api.BadRequest("start: %q is not the name of a branch", termsafe.Clip(req.Branch, 200))
	}
	answer, err := g.startShim(context.WithoutCancel(r.Context()), launch.Order{
		Verb: "start", Project: req.Project, Agent: req.Agent, Branch: req.Branch, Rejoin: true,
	})
	if failed, is := errors.AsType[*launch.Failure](err); is {
		e := &api.Error{Status: http.StatusConflict, Code: api.CodeBadRequest, Message: termsafe.Text(failed.Error())}
		for _, line := range failed.Hints() {
			e.Hints = append(e.Hints, termsafe.Text(line))
		}
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return api.StartAnswer{Said: termsafe.Text(answer.Name)}, nil
}

// startShim starts a cloister's shim, which outlives the guardian.
func (g *guardian) startShim(ctx context.Context, order launch.Order) (launch.Answer, error) {
	answer, _, err := g.beginShim(ctx, order)
	return answer, err
}

// beginShim does, and gives how it ends once it has.
func (g *guardian) beginShim(ctx context.Context, order launch.Order) (launch.Answer, <-chan int, error) {
	if g.o.Shim.Path == "" {
		return launch.Answer{}, nil, api.BadRequest("this guardian cannot start a cloister")
	}
	ctx, cancel := context.WithTimeout(ctx, shimWithin)
	defer cancel()
	child, err := g.o.Shim.Start(order)
	if err != nil {
		return launch.Answer{}, nil, err
	}
	g.own.Store(child.PID, struct{}{})
	ended := make(chan int, 1)
	go func() {
		status, err := child.Status() // else what became of it is in its answer, or in the session's end
		if err == nil {
			ended <- status
		}
		close(ended)
		g.own.Delete(child.PID)
	}()
	answer, err := child.Answer(ctx)
	return answer, ended, err
}

// getFile is a file that a session changed, beside what was committed last.
func (g *guardian) getFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil {
		return nil, api.BadRequest("changed file: %q is not a record's number", termsafe.Clip(r.PathValue("seq"), 20))
	}
	for e, err := range audit.Back(folders.Audit(g.o.Dirs), audit.Filter{}) {
		switch {
		case err != nil || e.Seq > seq:
			continue
		case e.Seq == seq && e.Kind == audit.AutorunChanged && e.Resource != "":
			return g.changedFile(r.Context(), e), nil
		}
		break
	}
	return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
		Message: fmt.Sprintf("record %d is not of a changed file", seq)}
}

func (g *guardian) changedFile(ctx context.Context, e audit.Event) api.ChangedFile {
	out := api.ChangedFile{Record: records.Shown(e)}
	now, err := workspace.Look(e.Project, e.Resource)
	if err != nil {
		out.Note = termsafe.Text(err.Error())
	}
	out.After = termsafe.Lines(string(now))
	var before []byte
	host, err := g.o.resolver()()
	if err == nil {
		before, err = workspace.Committed(ctx, host, e.Project, e.Resource)
	}
	if err != nil {
		out.From = "nothing of it is committed, or git does not tell: " + termsafe.Text(termsafe.Clip(err.Error(), 200))
		return out
	}
	out.Before, out.From = termsafe.Lines(string(before)), "as it was committed last (HEAD)"
	return out
}

// getAuditVerify proves the chain.
func (g *guardian) getAuditVerify(http.ResponseWriter, *http.Request) (any, error) {
	report, err := audit.Verify(folders.Audit(g.o.Dirs))
	out := api.Verification{OK: err == nil, Records: report.Records, Segments: report.Segments, Head: report.Head,
		Unkeyed: report.Unkeyed, Keys: report.Keys}
	if err != nil {
		out.Problem = termsafe.Text(err.Error())
		return out, nil
	}
	for _, line := range report.Proves() {
		out.Proves = append(out.Proves, termsafe.Text(line))
	}
	return out, nil
}

// getAuditExport gives the records themselves, oldest first.
func (g *guardian) getAuditExport(w http.ResponseWriter, r *http.Request) (any, error) {
	want, err := records.QueryOf(r)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", `attachment; filename="cloister-audit.jsonl"`)
	for l, err := range audit.Lines(folders.Audit(g.o.Dirs), want.Filter) {
		if err != nil || !want.Fits(l.Event) {
			continue // verify tells what cannot be read
		}
		if _, err := w.Write(append(l.Text, '\n')); err != nil {
			break // the reader is gone
		}
	}
	return hijacked{}, nil
}

// getTerminal joins a browser to a session's terminal.
func (g *guardian) getTerminal(w http.ResponseWriter, r *http.Request) (any, error) {
	info, err := g.sessions.Find(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if !info.Terminal || g.o.Door == nil || info.State != api.StateRunning {
		return nil, &api.Error{Status: http.StatusConflict, Code: api.CodeOver,
			Message: fmt.Sprintf("attach to %s: it has no terminal, or has ended", info.Name)}
	}
	if !g.enterLink() {
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeShuttingDown,
			Message: "attach: the guardian is on its way out"}
	}
	defer g.links.Done()
	var dialer net.Dialer
	raw, err := dialer.DialContext(r.Context(), "unix", g.o.Door(info.ID))
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", info.Name, err)
	}
	conn := raw.(*net.UnixConn)
	defer func() { _ = conn.Close() }()
	if _, err := peercred.Require(conn, os.Getuid()); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", info.Name, err)
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{web.Protocol},
		CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return hijacked{}, nil // it has answered
	}
	ws.SetReadLimit(maxTyped)
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := terminal.Relay(conn, &page{ctx, ws}); err != nil {
		g.log.Warn("terminal of the window", "session", info.Name, "error", err)
	}
	return hijacked{}, nil
}

// page is a terminal in a browser.
type page struct {
	ctx context.Context
	ws  *websocket.Conn
}

func (p *page) Read() ([]byte, error) {
	_, message, err := p.ws.Read(p.ctx)
	return message, err
}

func (p *page) Write(message []byte) error {
	ctx, cancel := context.WithTimeout(p.ctx, sendWithin)
	defer cancel()
	return p.ws.Write(ctx, websocket.MessageBinary, message)
}

func (p *page) End(over bool) {
	if over {
		_ = p.ws.Close(websocket.StatusNormalClosure, "it has ended") // whoever has gone needs no word
	}
	_ = p.ws.CloseNow()
}
