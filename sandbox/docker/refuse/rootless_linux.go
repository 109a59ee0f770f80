package refuse

import (
	"cloister/sandbox"
)

func Rootless() error {
	return &sandbox.Unsupported{
		Guarantee: "engine", Reason: "the engine is rootless or maps users (userns-remap): files of the project would be " +
			"somebody else's inside",
		Fix: "use an engine that runs as root without userns-remap, or --isolation native, which needs no root",
	}
}
