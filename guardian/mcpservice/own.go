package mcpservice

import (
	"context"
	"fmt"

	"cloister/audit"
	"cloister/guardian/court"
	"cloister/mcp"
	"cloister/policy"
)

// Own decides about a call of a tool of Cloister's own MCP server, which a client outside
// makes for this session. command is what the tool is going to run inside; its start is
// recorded too.
func (d *Service) Own(ctx context.Context, c mcp.Call, command string) (mcp.Answer, error) {
	server, err := policy.Own()
	if err != nil {
		return mcp.Answer{}, fmt.Errorf("call a tool of cloister: %w", err)
	}
	for _, declared := range d.Snapshot.Load().MCPServers() {
		if declared.Name == server.Name {
			server = declared
		}
	}
	j := &judge{d, &server}
	r := court.Decide(ctx, d.Context, j.callCase(c))
	out := mcp.Answer{Allow: r.Allowed(), Server: server.Name, Rule: r.RuleAt(), Reason: reason(r), Hints: r.Hints}
	if !out.Allow || command == "" {
		return out, nil
	}
	e := d.Event()
	e.Kind, e.Action, e.Resource = audit.Exec, "start", command
	if err := d.Records.Append(ctx, e); err != nil {
		return mcp.Answer{Server: server.Name, Reason: court.Unrecorded(err)}, nil
	}
	return out, nil
}
