package api

// PathTenant takes records of what cloister serve does for the tenant of an instance.
const PathTenant = "/v1/tenant"

// TenantRecord is one such act, recorded before it is done.
type TenantRecord struct {
	Kind     string `json:"kind"`              // exec, or one of tenant.*
	Session  string `json:"session,omitempty"` // the sandbox's; empty for what concerns the tenant
	Action   string `json:"action"`
	Resource string `json:"resource"` // a command, a path, a port, the ID of a key
	Reason   string `json:"reason,omitempty"`
	// Lost says that the sandbox was another server's, which is out of touch: this instance has no session of
	// it, and records it once.
	Lost bool `json:"lost,omitempty"`
}
