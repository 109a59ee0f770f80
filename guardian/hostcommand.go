package guardian

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/instance"
	"cloister/guardian/process"
	"cloister/internal/termsafe"
	"cloister/policy"
)

func (g *guardian) getCommands(http.ResponseWriter, *http.Request) (any, error) {
	return g.commands.All(), nil
}

func (g *guardian) getCommand(_ http.ResponseWriter, r *http.Request) (any, error) {
	if c, ok := g.commands.Find(r.PathValue("id")); ok {
		return c, nil
	}
	return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
		Message: fmt.Sprintf("no host command %q since the guardian began", termsafe.Clip(r.PathValue("id"), 20))}
}

// ofHostCommand reports whether a process belongs to a host command or an MCP server:
// its parents lead to this process, through the helper, which adopts what it leaves.
// What a cloister had approved is no person. While one runs, a caller that is
// gone is taken for its: it may have left the connection to its child.
func (g *guardian) ofHostCommand(r *http.Request) bool {
	peer, ok := instance.PeerOf(r.Context())
	if g.host.Running() == 0 || !ok {
		return false
	}
	for pid, self := peer.PID, os.Getpid(); pid > 1; {
		if pid == self {
			return peer.PID != self // the guardian's own calls are tests'
		}
		if _, own := g.own.Load(pid); own {
			return false // what the guardian itself started for the window
		}
		parent, known := process.ParentOf(pid)
		if !known {
			return true
		}
		pid = parent
	}
	return false
}

// refusedByOrigin tells everybody who should know.
func (g *guardian) refusedByOrigin(r *http.Request) {
	peer, _ := instance.PeerOf(r.Context())
	g.notice(fmt.Sprintf("a host command (pid %d) called the guardian itself and was refused: %s %s", peer.PID, r.Method,
		termsafe.Clip(termsafe.Text(r.URL.Path), 200)))
	g.records.Note(context.WithoutCancel(r.Context()), audit.Event{
		Kind: audit.ApprovalDecision, Action: "refuse", Resource: r.URL.Path, Verdict: policy.Deny.String(), PID: peer.PID,
		Reason: "a host command may not call the guardian", Policy: g.policies.Current().Snapshot().Digest(),
	})
}
