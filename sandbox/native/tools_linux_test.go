package native_test

import (
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/tools"
)

// TestTools holds docs/tools.md to what the tools of this machine do natively.
func TestTools(t *testing.T) {
	tools.Hold(t, tools.Level{Name: "native", Document: "../../docs/tools.md", Root: "/",
		Run: sandboxtest.Script(func() sandbox.Driver { return native.New("test") })})
}
