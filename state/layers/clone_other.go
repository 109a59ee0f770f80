//go:build !linux

package layers

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// as on Linux; the numbers differ on darwin (lseek(2)).
const (
	seekHole = 3
	seekData = 4
)

var errSystem = errors.New("on Linux alone")

func cloneFile(*os.File, *os.File) error { return errSystem }

func mknod(int, string, *unix.Stat_t) error { return errSystem }

func mknodWhiteout(int, string) error { return errSystem }

func renameNew(int, string, int, string) error { return errSystem }
