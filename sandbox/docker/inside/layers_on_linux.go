//go:build !cloister_layeroff

package inside

import "cloister/sandbox"

// off reports that a layer is left out. None ever is here: layers_off_linux.go is for test builds alone, as is
// what it does to what an engine is asked for.
func off(...string) bool { return false }

// LeaveOut changes nothing of what an engine is asked for.
func LeaveOut(body map[string]any) map[string]any { return body }

// Protected are the paths to protect: all of them.
func Protected(all []sandbox.Protect) []sandbox.Protect { return all }

// payloadEnv is the environment of the process that becomes the command: none.
func payloadEnv() []string { return []string{} }
