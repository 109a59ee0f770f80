package policy

import "cloister/internal/authority"

// OwnServer is the name of the MCP server that Cloister itself is to a client outside
// (cloister mcp serve), as rules, questions and the record have it.
const OwnServer = "cloister"

// ownAsked is its tool about which a person is asked unless a remembered answer speaks of
// it: a published port is seen by all programs of this machine.
const ownAsked = "publish_port"

// Own is that server. What its tools do stays in the cloister, whose own rules hold, so
// each is allowed that no rule forbids or asks about.
func Own() (MCPServer, error) {
	at, err := authority.Parse(OwnServer+".mcp.internal", 80)
	return MCPServer{
		Name: OwnServer, Authority: at, Path: "/", AllowTools: []string{"*"}, AskTools: []string{ownAsked},
	}, err
}

// serverOf is the declared server of a name, or Cloister's own where none has that name.
func (s *Snapshot) serverOf(name string) *MCPServer {
	if declared := s.servers[name]; declared != nil || name != OwnServer {
		return declared
	}
	own, err := Own()
	if err != nil {
		return nil // and what no server has is denied
	}
	return &own
}
