package mcp_test

import "encoding/json"

// valid is what another reader of JSON says.
func valid(data []byte) bool { return json.Valid(data) }
