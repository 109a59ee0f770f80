package image

import "io"

// Unpack lays one layer into a new folder.
func Unpack(dir string, layer io.Reader) error {
	u, err := newUnpacker(dir)
	if err != nil {
		return err
	}
	defer u.root.Close()
	return u.layer(layer)
}
