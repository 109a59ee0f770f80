package workspace

import (
	"io/fs"

	"cloister/sandbox"
)

// asks notes a file about which a person is asked; why says what keeps it from that.
func (v *View) asks(c Closed, guest string, fi fs.FileInfo, o Options) (why string) {
	b := v.bindOf(guest)
	switch {
	case !fi.Mode().IsRegular():
		return "ask is for regular files, and this is none: name files as File:: or by a pattern, Glob::"
	case o.Overlay && b != nil && b.Overlay:
		return "ask is not possible in an overlay workspace: what was written there is not the file that lies on the host"
	}
	a := sandbox.Asked{Path: sandbox.GuestPath(guest), Source: sandbox.HostPath(v.onHost(guest, o)), Rule: c.Rule,
		Read: c.Read, Write: c.Change && b != nil && b.Access == sandbox.ReadWrite} // the system's own is not written
	if b != nil && !b.System {
		a.Owned = b.Source
	}
	v.Asked = append(v.Asked, a)
	return ""
}
