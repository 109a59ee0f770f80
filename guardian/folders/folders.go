// Package folders says where a guardian keeps what it keeps, and where it answers.
//
// The promise: two guardians of different folders share none of it. It touches no disk.
//
// Most readers want [Audit].
package folders

import (
	"path/filepath"

	"cloister/internal/xdg"
)

// Socket is where the guardian of dirs answers.
func Socket(dirs xdg.Dirs) string { return filepath.Join(dirs.Runtime, "guardian.sock") }

// Audit is where the guardian of dirs keeps its record.
func Audit(dirs xdg.Dirs) string { return filepath.Join(dirs.State, "audit") }

// Vault is where the guardian of dirs keeps its vault.
func Vault(dirs xdg.Dirs) string { return filepath.Join(dirs.Data, "vault") }

// Sessions is the file in which the guardian of dirs keeps what the next one takes back.
func Sessions(dirs xdg.Dirs) string { return filepath.Join(dirs.State, "sessions.json") }
