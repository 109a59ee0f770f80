package api

import "time"

// Routes of MCP.
const PathMCP = "/v1/mcp"

// MCPServer is one declared server: an item of GET /v1/mcp, and with its tools the
// answer of GET /v1/mcp/NAME.
type MCPServer struct {
	Name    string   `json:"name"`
	URL     string   `json:"url,omitempty"`
	Command []string `json:"command,omitempty"`
	// At is where programs inside reach it.
	At          string   `json:"at"`
	Place       string   `json:"place,omitempty"` // file:line of its declaration
	AllowTools  []string `json:"allow_tools"`
	AskTools    []string `json:"ask_tools"`
	DenyTools   []string `json:"deny_tools"`
	Prompts     []string `json:"prompts"`
	Resources   []string `json:"resources"`
	Sampling    string   `json:"sampling"`
	Elicitation string   `json:"elicitation"`
	Roots       string   `json:"roots"`
	// Pinned and Changed count its tools: those that were seen, and those of them
	// that it tells otherwise now.
	Pinned  int       `json:"pinned"`
	Changed int       `json:"changed"`
	Tools   []MCPTool `json:"tools,omitempty"`
}

// MCPTool is a tool as it was listed.
type MCPTool struct {
	Name string `json:"name"`
	// Verdict is of a call whose arguments no rule speaks of.
	Verdict     string         `json:"verdict"`
	Rule        string         `json:"rule,omitempty"`
	Reason      string         `json:"reason"`
	Digest      string         `json:"digest"` // what is pinned
	Description string         `json:"description"`
	Schema      string         `json:"schema"` // of the arguments, as JSON
	PinnedAt    time.Time      `json:"pinned_at"`
	PinnedBy    string         `json:"pinned_by"`
	Changed     *MCPDefinition `json:"changed,omitempty"` // what the server says now, where that is another
}

// MCPDefinition is what a server says of a tool.
type MCPDefinition struct {
	Digest      string    `json:"digest"`
	Description string    `json:"description"`
	Schema      string    `json:"schema"`
	SeenAt      time.Time `json:"seen_at"`
	// Members are all that differs, each with the text before and now.
	Members []MCPMember `json:"members,omitempty"`
}

// MCPMember is one member of a definition that has changed: a tool's title, its
// annotations, a server's instructions. Values other than texts are JSON.
type MCPMember struct {
	Name   string `json:"name"`
	Before string `json:"before"` // empty for none
	Now    string `json:"now"`
}

// MCPProject is the body of POST /v1/mcp and POST /v1/mcp/NAME, which answer as GET
// does, with what a project's files declare besides.
type MCPProject struct {
	Project  string        `json:"project,omitempty"`
	Projects []ProjectFile `json:"projects,omitempty"`
}

// MCPPin is the body of POST /v1/mcp/NAME/pin: take what the server says now of
// these tools (of every one where none is named), or forget what was pinned.
type MCPPin struct {
	Tools  []string `json:"tools,omitempty"`
	Forget bool     `json:"forget,omitempty"`
	// Digests, by tool, are of what the person looked at; one that has changed since
	// is not taken.
	Digests map[string]string `json:"digests,omitempty"`
	MCPProject
}

// MCPPinned answers it.
type MCPPinned struct {
	Server string   `json:"server"`
	Tools  []string `json:"tools"` // those that changed by it
}
