package secrets

import (
	"path/filepath"
	"runtime"

	"cloister/secret/vault"
)

// Keyring is the person's, where there is one that the guardian can reach. Without
// an address none is looked for: the library would start a bus.
func (a *Commands) Keyring() vault.Keyring {
	if runtime.GOOS == "darwin" || a.Env.Get("DBUS_SESSION_BUS_ADDRESS") != "" {
		return vault.SystemKeyring{}
	}
	return nil
}

// Environment is what a command that prints a secret gets: what it needs to find
// the person's own settings and keyring.
func (a *Commands) Environment(hostEnv []string) []string {
	env := append([]string(nil), hostEnv...)
	for _, key := range []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
		"XDG_RUNTIME_DIR"} {
		if v := a.Env.Get(key); filepath.IsAbs(v) || v != "" && key == "DBUS_SESSION_BUS_ADDRESS" {
			env = append(env, key+"="+v)
		}
	}
	return env
}
