package demand

import "cloister/devcontainer/jsonc"

func compose(j *judge, m jsonc.Member) any {
	j.of(m, Refused, notStarted, "name an image or a Dockerfile")
	return nil
}

func composePart(j *judge, m jsonc.Member) any {
	j.of(m, Refused, notStarted, "")
	return nil
}
