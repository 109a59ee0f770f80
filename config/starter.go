package config

import _ "embed"

//go:embed starter.yaml
var starter []byte

// Starter is a configuration to start from: every line that is no comment says what holds anyway.
func Starter() []byte { return append([]byte(nil), starter...) }
