package native_test

import (
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// TestTools holds docs/tools.md to what the tools of this machine do natively.
func TestTools(t *testing.T) {
	sandboxtest.Tools(t, "native", "../../docs/tools.md", func() sandbox.Driver { return native.New("test") })
}
