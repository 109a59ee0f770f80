package native_test

import (
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

func TestDriver(t *testing.T) {
	sandboxtest.Run(t, func() sandbox.Driver { return native.New() })
}
