package corpus

import "cloister/escape"

// Missing are the rows that attack what is not built yet.
func Missing() []escape.Missing {
	return []escape.Missing{
		{ID: "PR-18", Needs: "a policy of programs (Cedar ProcessExec); until then memfd_create and execveat are allowed on purpose"},
		{ID: "PR-22", Needs: "quotas for the project and the private home; /tmp alone has a size"},
		{ID: "SC-01", Needs: "devcontainers"},
		{ID: "SC-09", Needs: "self-update"},
		{ID: "PO-07", Needs: "an MCP server in the world of the attempts; the tests of guardian and egress try it"},
		{ID: "PO-10", Needs: "an MCP server in the world of the attempts; the tests of guardian and egress try it"},
		{ID: "PO-11", Needs: "an MCP server in the world of the attempts; the tests of guardian and egress try it"},
	}
}
