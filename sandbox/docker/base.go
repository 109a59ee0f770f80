package docker

import (
	"bytes"
	_ "embed" // the base image's definition
)

// baseDefinition makes the base image.
//
//go:embed base/Dockerfile
var baseDefinition []byte

// BaseDefinition is the text by which the base image is built.
func BaseDefinition() []byte { return bytes.Clone(baseDefinition) }
