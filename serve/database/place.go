package database

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"cloister/internal/durable"
)

// place is what a server is known by.
type place struct {
	ID string `json:"id"`
	// Dev, Ino and Machine say where the folder was when the ID was made: a copy of it is another place.
	Dev     uint64 `json:"dev"`
	Ino     uint64 `json:"ino"`
	Machine string `json:"machine"`
}

// Place gives the ID of the server that has a folder, and makes it at the first use. A folder that
// was copied, to this machine or another, is another server's: what the original has stays its own.
func Place(dir string) (string, error) {
	now, err := where(dir)
	if err != nil {
		return "", fmt.Errorf("read which server this is: %w", err)
	}
	file := filepath.Join(dir, "server.json")
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read which server this is: %w", err)
	}
	if err == nil {
		var was place
		if err := json.Unmarshal(text, &was); err != nil {
			return "", fmt.Errorf("read which server this is: %s: %w", file, err)
		}
		if now.ID = was.ID; was == now && was.ID != "" {
			return was.ID, nil
		}
	}
	now.ID = strings.ToLower(rand.Text()[:20])
	if text, err = json.Marshal(now); err != nil {
		return "", fmt.Errorf("write which server this is: %w", err)
	}
	return now.ID, durable.WriteFile(file, append(text, '\n'), 0o600)
}

func where(dir string) (place, error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return place{}, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return place{}, errors.New("the folder has no number")
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return place{}, err
	}
	dev := uint64(st.Dev) // of 32 bits on darwin
	return place{Dev: dev, Ino: st.Ino, Machine: strings.TrimSpace(string(machine))}, nil
}
