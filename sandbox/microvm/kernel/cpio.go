package kernel

import (
	"bytes"
	"fmt"
)

// cpio writes an archive of the format newc (Documentation/driver-api/early-userspace/buffer-format.rst).
type cpio struct {
	out bytes.Buffer
	n   int
}

func (c *cpio) add(name string, mode int, text []byte) {
	c.n++
	const links = 1
	fmt.Fprintf(&c.out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.n, mode, 0, 0, links, 0, len(text), 0, 0, 0, 0, len(name)+1, 0, name)
	c.pad()
	c.out.Write(text)
	c.pad()
}

func (c *cpio) pad() {
	for c.out.Len()%4 != 0 {
		c.out.WriteByte(0)
	}
}
