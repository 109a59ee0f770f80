package api

// ToolCall is a call that a client of Cloister's own MCP server makes for a session: the
// body of POST /v1/sessions/NAME/tool. It is decided and recorded, and not carried out.
type ToolCall struct {
	Tool string `json:"tool"`
	// Arguments are a JSON object as the client wrote it; empty for none.
	Arguments string `json:"arguments,omitempty"`
	// Command is what the tool is going to run inside, for the record.
	Command string `json:"command,omitempty"`
}

// ToolVerdict is the answer: whether the call may be carried out.
type ToolVerdict struct {
	Allow  bool     `json:"allow"`
	Rule   string   `json:"rule,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Hints  []string `json:"hints,omitempty"`
}
