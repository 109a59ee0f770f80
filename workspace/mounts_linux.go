package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
)

// unescape undoes how mountinfo writes what would end a field (proc(5)).
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsIn are the places below some folders on which something is mounted. What lies there
// has another name elsewhere, as where a folder is bound to a second place.
func mountsIn(folders []string) ([]string, error) {
	text, err := table("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for mounts in the project: %w", err)
	}
	var out []string
	for row := range strings.Lines(text) {
		fields := strings.Fields(row)
		if len(fields) < 5 {
			continue
		}
		at := unescape.Replace(fields[4])
		in := func(dir string) bool { return at != dir && realpath.Inside(at, dir) }
		if slices.ContainsFunc(folders, in) && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out, nil
}

// table reads a file that the kernel writes while it is read: in pieces as large as it gives,
// where os.ReadFile begins with 512 bytes.
func table(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var text strings.Builder
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", err
		case n == 0:
			return text.String(), nil
		default:
			text.Write(buf[:n])
		}
	}
}
