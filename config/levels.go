package config

import (
	_ "embed" // of the levels
	"strings"
)

// levels is made from the drivers that cmd/cloister registers: go generate ./cmd/cloister. A
// configuration of any system may name each of them.
//
//go:embed levels.txt
var levels string

// Levels are the names of the drivers, the preferred one first.
func Levels() []string { return strings.Fields(levels) }
