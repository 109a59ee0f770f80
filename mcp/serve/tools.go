package serve

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tools adds every tool. None of them reaches further than the cloister, but for
// publish_port.
func (s *server) tools(m *mcp.Server) {
	no, yes := false, true
	changes := &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no}
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	mcp.AddTool(m, &mcp.Tool{
		Name: "exec", Title: "Run a command in the cloister",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
		Description: "Run a command in the cloister and wait for its end. Gives its output, bounded, and its exit status. " +
			"What it leaves running goes on until the cloister ends.",
	}, s.exec)
	mcp.AddTool(m, &mcp.Tool{
		Name: "read_file", Title: "Read a file in the cloister", Annotations: reads,
		Description: "Read a file, or a part of it.",
	}, s.readFile)
	mcp.AddTool(m, &mcp.Tool{
		Name: "write_file", Title: "Write a file in the cloister", Annotations: changes,
		Description: "Write a whole file, or add to one.",
	}, s.writeFile)
	mcp.AddTool(m, &mcp.Tool{
		Name: "list_files", Title: "List a folder in the cloister", Annotations: reads,
		Description: "List what a folder holds.",
	}, s.listFiles)
	mcp.AddTool(m, &mcp.Tool{
		Name: "publish_port", Title: "Publish a port of the cloister", Annotations: changes,
		Description: "Make a TCP port that something in the cloister listens on reachable at 127.0.0.1 of the host. " +
			"A person is asked first.",
	}, s.publishPort)
	mcp.AddTool(m, &mcp.Tool{
		Name: "list_ports", Title: "List published ports", Annotations: reads,
		Description: "List the published ports.",
	}, s.listPorts)
}

type publishIn struct {
	Port     int `json:"port" jsonschema:"the port inside, 1 to 65535"`
	HostPort int `json:"host_port,omitempty" jsonschema:"the port of 127.0.0.1, 1024 to 65535; any free one unless said"`
}

func (s *server) publishPort(ctx context.Context, r *mcp.CallToolRequest, in publishIn) (*mcp.CallToolResult, any, error) {
	switch {
	case in.Port < 1 || in.Port > 65535:
		return nil, nil, refuse("port is 1 to 65535")
	case in.HostPort != 0 && (in.HostPort < 1024 || in.HostPort > 65535):
		return nil, nil, refuse("host_port is 1024 to 65535")
	}
	release, err := s.judged(ctx, r, "")
	if err != nil {
		return nil, nil, err
	}
	defer release()
	host, err := s.o.Cloister.Publish(ctx, uint16(in.Port), uint16(in.HostPort))
	if err != nil {
		return nil, nil, err
	}
	out := Port{uint16(in.Port), host}
	result, err := answer(fmt.Sprintf("port %d of the cloister is at 127.0.0.1:%d", in.Port, host), out, false)
	return result, nil, err
}

type portsOut struct {
	Ports []Port `json:"ports"`
}

func (s *server) listPorts(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	release, err := s.judged(ctx, r, "")
	if err != nil {
		return nil, nil, err
	}
	defer release()
	out, text := portsOut{Ports: []Port{}}, &strings.Builder{}
	for _, p := range s.o.Cloister.Ports() {
		out.Ports = append(out.Ports, p)
		fmt.Fprintf(text, "127.0.0.1:%d -> %d\n", p.HostPort, p.Port)
	}
	result, err := answer(text.String(), out, false)
	return result, nil, err
}
