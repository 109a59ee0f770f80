//go:build cloister_layeroff

package inside

import (
	"os"
	"slices"

	"cloister/sandbox"
)

// envLayerOff is the environment of a build that tests what holds when a layer is missing: the layer to leave out.
const envLayerOff = "CLOISTER_LAYER_OFF"

// off reports that one of these layers is left out.
func off(names ...string) bool { return slices.Contains(names, os.Getenv(envLayerOff)) }

// LeaveOut takes a layer away from the container that an engine is asked for, and lets its first process know.
func LeaveOut(body map[string]any) map[string]any {
	host := body["HostConfig"].(map[string]any)
	switch {
	case off("seccomp"):
		host["SecurityOpt"] = []string{"no-new-privileges", "seccomp=unconfined"}
	case off("capabilities"):
		delete(host, "CapDrop")
	}
	body["Env"] = payloadEnv()
	return body
}

// Protected are the paths to protect.
func Protected(all []sandbox.Protect) []sandbox.Protect {
	if off("protect") {
		return nil
	}
	return all
}

// payloadEnv is the environment of the process that becomes the command, which lets it know too.
func payloadEnv() []string { return []string{envLayerOff + "=" + os.Getenv(envLayerOff)} }
