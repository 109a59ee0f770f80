//go:build !linux

package hostgit

import (
	"fmt"
	"os"
)

func signature(file string) string {
	fi, err := os.Stat(file)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %d", fi.Size(), fi.ModTime().UnixNano())
}
