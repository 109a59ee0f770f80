package demand

import "cloister/devcontainer/jsonc"

func compose(j *judge, m jsonc.Member) any {
	j.of(m, Honoured, "its services are started beside the agent, each in a cloister of its own", "")
	return m.Value.Any()
}

func composePart(j *judge, m jsonc.Member) any {
	j.of(m, Honoured, "which service the agent is, and which are beside it", "")
	return m.Value.Any()
}
