package workspace

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"cloister/internal/standin"
	"cloister/sandbox"
)

// asks notes a file about which a person is asked; why says what keeps it from that.
func (v *closing) asks(c Closed, guest string, fi fs.FileInfo, o Options) (why string) {
	b := v.bindOf(guest)
	switch {
	case !fi.Mode().IsRegular():
		return "" // it stays closed: what a pattern names, whoever made it, keeps no session from its start
	case o.Overlay && b != nil && b.Overlay:
		return "ask is not possible in an overlay workspace: what was written there is not the file that lies on the host"
	}
	if c.Exec {
		return v.program(c, guest, fi)
	}
	a := sandbox.Asked{Path: sandbox.GuestPath(guest), Source: sandbox.HostPath(v.onHost(guest, o)), Rule: c.Rule,
		Read: c.Read, Write: c.Change && b != nil && b.Access == sandbox.ReadWrite} // the system's own is not written
	if b != nil && !b.System {
		a.Owned = b.Source
	}
	v.without(&a)
	// A name that is no text is another one for whoever is asked, and for what is remembered: it stays closed.
	if (a.Read || a.Write) && utf8.ValidString(guest) {
		v.Asked = append(v.Asked, a)
	}
	return ""
}

// program shows a stand-in for a program about which a person is asked, unless it is closed to everybody.
func (v *closing) program(c Closed, guest string, fi fs.FileInfo) (why string) {
	b := v.bindOf(guest)
	a := sandbox.Asked{Path: sandbox.GuestPath(guest), Source: sandbox.HostPath(v.onHost(guest, v.o)), Rule: c.Rule,
		Read: true}
	if b != nil && !b.System {
		a.Owned = b.Source
	}
	v.without(&a)
	if !a.Read || fi.Mode()&0o111 == 0 || !utf8.ValidString(guest) {
		return ""
	}
	a.Read = false
	if fi.Size() > standin.MostBytes {
		return fmt.Sprintf("ask is not possible for a program of more than %d bytes", standin.MostBytes)
	}
	var err error
	if v.programs == nil {
		if v.programs, err = standin.New(v.o.Data); err != nil {
			return err.Error()
		}
		v.Binds = append(v.Binds, sandbox.Bind{Source: sandbox.HostPath(v.programs.Shown()), Target: sandbox.StandIns})
	}
	name, err := v.programs.Add()
	if err != nil {
		return err.Error()
	}
	a.StandIn = sandbox.HostPath(filepath.Join(v.programs.Shown(), name))
	v.Asked = append(v.Asked, a)
	v.instead = sandbox.StandIns + "/" + sandbox.GuestPath(name)
	return ""
}

// without takes away what is closed to everybody: by a forbid, also where it names a link to the file or to a folder
// above it, and by the view itself, which hides some files and has others never written.
func (v *closing) without(a *sandbox.Asked) {
	for at := string(a.Path); ; at = filepath.Dir(at) {
		for _, i := range v.covers.of(at) {
			if p := v.Protect[i]; i < v.forbidden && !p.Pin {
				a.Write = false
				a.Read = a.Read && !p.Empty && p.Instead == ""
			}
		}
		if at == "/" {
			return
		}
	}
}
