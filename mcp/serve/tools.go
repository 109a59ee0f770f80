package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// A request is one call of a tool; arguments is an object of JSON, or empty for none.
type request struct {
	tool      string
	arguments json.RawMessage
}

// A tool is what a client is shown of one, and what carries out its calls.
type tool struct {
	Name        string      `json:"name"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Input       schema      `json:"inputSchema"`
	Annotations annotations `json:"annotations"`
	call        func(context.Context, request) (*toolResult, error)
}

// Annotations are what a client may believe of a tool that it trusts.
type annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

// tools are all of them. None reaches further than the cloister, but for publish_port.
func (s *server) tools() []tool {
	reads, changes := annotations{ReadOnly: true}, annotations{Destructive: true}
	return []tool{
		define("exec", "Run a command in the cloister", annotations{Destructive: true, OpenWorld: true},
			"Run a command in the cloister and wait for its end. Gives its output, bounded, and its exit status. "+
				"What it leaves running goes on until the cloister ends.", s.exec),
		define("read_file", "Read a file in the cloister", reads, "Read a file, or a part of it.", s.readFile),
		define("write_file", "Write a file in the cloister", changes, "Write a whole file, or add to one.", s.writeFile),
		define("list_files", "List a folder in the cloister", reads, "List what a folder holds.", s.listFiles),
		define("publish_port", "Publish a port of the cloister", changes,
			"Make a TCP port that something in the cloister listens on reachable at 127.0.0.1 of the host. "+
				"A person is asked first.", s.publishPort),
		define("list_ports", "List published ports", reads, "List the published ports.", s.listPorts),
	}
}

// define makes a tool of a function whose arguments are a T, by the names of its fields.
func define[T any](
	name, title string, hints annotations, description string, do func(context.Context, request, T) (*toolResult, error),
) tool {
	input := schemaOf(reflect.TypeFor[T]())
	return tool{name, title, description, input, hints, func(ctx context.Context, r request) (*toolResult, error) {
		var in T
		if err := input.decode(r.arguments, &in); err != nil {
			return nil, refuse("%s: %v", name, err)
		}
		return do(ctx, r, in)
	}}
}

type publishIn struct {
	Port     int `json:"port" doc:"the port inside, 1 to 65535"`
	HostPort int `json:"host_port,omitempty" doc:"the port of 127.0.0.1, 1024 to 65535; any free one unless said"`
}

func (s *server) publishPort(ctx context.Context, r request, in publishIn) (*toolResult, error) {
	switch {
	case in.Port < 1 || in.Port > 65535:
		return nil, refuse("port is 1 to 65535")
	case in.HostPort != 0 && (in.HostPort < 1024 || in.HostPort > 65535):
		return nil, refuse("host_port is 1024 to 65535")
	}
	release, err := s.judged(ctx, r, "")
	if err != nil {
		return nil, err
	}
	defer release()
	host, err := s.o.Cloister.Publish(ctx, uint16(in.Port), uint16(in.HostPort))
	if err != nil {
		return nil, err
	}
	out := Port{uint16(in.Port), host}
	return answer(fmt.Sprintf("port %d of the cloister is at 127.0.0.1:%d", in.Port, host), out, false), nil
}

type portsOut struct {
	Ports []Port `json:"ports"`
}

func (s *server) listPorts(ctx context.Context, r request, _ struct{}) (*toolResult, error) {
	release, err := s.judged(ctx, r, "")
	if err != nil {
		return nil, err
	}
	defer release()
	out, text := portsOut{Ports: []Port{}}, &strings.Builder{}
	for _, p := range s.o.Cloister.Ports() {
		out.Ports = append(out.Ports, p)
		fmt.Fprintf(text, "127.0.0.1:%d -> %d\n", p.HostPort, p.Port)
	}
	return answer(text.String(), out, false), nil
}
