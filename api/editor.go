package api

// EditorUse is what an agent wanted of the editor that started it, or what the editor
// brings the agent: the body of POST /v1/sessions/NAME/editor. It is recorded before it has
// an effect, and not carried out.
type EditorUse struct {
	Method   string `json:"method"`             // of the Agent Client Protocol
	Resource string `json:"resource,omitempty"` // the command line, the path, the server
	Allow    bool   `json:"allow"`
	Reason   string `json:"reason,omitempty"`
}
