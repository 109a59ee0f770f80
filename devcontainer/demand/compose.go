package demand

import "cloister/devcontainer/jsonc"

const noCompose = "services of a compose file are not started yet"

func compose(j *judge, m jsonc.Member) any {
	j.of(m, Refused, noCompose, "name an image or a Dockerfile")
	return nil
}

func composePart(j *judge, m jsonc.Member) any {
	j.of(m, Refused, noCompose, "")
	return nil
}
