package corpus

import "cloister/escape"

// Missing are the rows that attack what is not built yet.
func Missing() []escape.Missing {
	return []escape.Missing{
		{ID: "PR-22", Needs: "a quota for the project and the private home; /tmp alone has a size. A full disk stops what is not recorded (RS-04, cmd/cloister/loadtest)"},
		{ID: "SC-02", Needs: "devcontainers"},
		{ID: "SC-03", Needs: "devcontainers"},
	}
}
