package plan

import (
	"fmt"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/gate"
)

// Plan makes the list of one box. Ground comes first, once; what it made the rest knows.
type Plan struct {
	Facts
	steps []Step
	made  map[string]bool // of the box's own
}

// New begins a plan.
func New(f Facts) *Plan { return &Plan{Facts: f, made: map[string]bool{}} }

// Of is the whole list of a Spec.
func Of(s sandbox.Spec, f Facts) []Step {
	p := New(f)
	list := append(p.Ground(), p.Rest(s)...)
	return append(append(list, p.Walls(s)...), Probes(s)...)
}

// own is where the box's own lies.
func (b Base) own(name string) string {
	if b == OnEngine {
		return "/.cloister/" + name
	}
	return "/run/." + name
}

// Behind is what a protected path is hidden behind: an empty folder or file of the box's own, or
// what the Spec made for it. A path that only is held is behind nothing.
func (b Base) Behind(t sandbox.Protect) string {
	switch {
	case t.Instead != "":
		return string(t.Instead)
	case t.Empty && t.File:
		return b.own("blank")
	case t.Empty:
		return b.own("nothing")
	}
	return ""
}

func (p *Plan) add(s ...Step) { p.steps = append(p.steps, s...) }

// take gives what was added.
func (p *Plan) take() []Step {
	out := p.steps
	p.steps = nil
	return out
}

// Ground is the part that every box of these facts has, before its Spec is known.
func (p *Plan) Ground() []Step {
	p.steps = make([]Step, 0, 96)
	engine := p.Base == OnEngine
	if !engine {
		p.add(Root{p.Image})
	}
	p.system()
	if p.CPUs {
		p.add(Bind{sandbox.Bind{Source: CPUs, Target: CPUs, System: true}})
	}
	switch {
	case p.Hosted != nil:
		p.add(Folder{Path: "/proc", Mode: 0o755}, Folder{Path: "/dev", Mode: 0o755}, Folder{Path: "/sys", Mode: 0o755})
		p.binds(p.Hosted.Shown)
	case engine:
		p.hide()
		p.add(Terminals{sandbox.MaxTerminals})
	default:
		p.add(Proc{p.Bounds})
		p.hide()
		p.devices()
	}
	p.etc()
	p.temporary()
	return p.take()
}

func (p *Plan) system() {
	switch p.Base {
	case OnHost:
		for _, f := range p.System {
			p.found(f)
		}
	case OnImage:
		p.add(Folder{Path: "/usr", Mode: 0o755}) // the probe tries it
	case OnEngine:
	}
}

// found shows what the host has as it is.
func (p *Plan) found(f Found) {
	at, from := sandbox.GuestPath(f.Path), sandbox.HostPath(f.Path)
	switch {
	case f.To != "":
		p.add(Link{sandbox.Link{Path: at, Target: f.To}})
	case f.Copied:
		p.add(File{sandbox.File{Path: at, From: from, Mode: 0o644}})
	default:
		p.add(Bind{sandbox.Bind{Source: from, Target: at, File: !f.Dir, System: true}})
	}
}

func (p *Plan) binds(list []sandbox.Bind) {
	for _, b := range list {
		p.add(Bind{b})
	}
}

// hide closes what of /proc is the host's.
func (p *Plan) hide() {
	for _, name := range p.Hold {
		p.add(Cover{sandbox.Protect{Target: sandbox.GuestPath(name)}})
	}
	for _, f := range p.Hide {
		if f.Dir {
			p.cover(sandbox.Protect{Target: sandbox.GuestPath(f.Path), Empty: true})
		} else {
			p.add(Null{f.Path})
		}
	}
	// The first process shows the host's paths and flags by its command line, and each of its
	// threads once more. Natively it is one thread, and stays one.
	p.add(Null{"/proc/1/cmdline"})
	if p.Base == OnEngine {
		p.cover(sandbox.Protect{Target: "/proc/1/task", Empty: true})
	} else {
		p.add(Null{"/proc/1/task/1/cmdline"})
	}
	// The kernel's names this machine until it starts anew, in every cloister alike.
	boot := sandbox.GuestPath(p.Base.own("boot_id"))
	p.add(File{sandbox.File{Path: boot, Data: p.BootID, Mode: 0o444}})
	p.add(Cover{sandbox.Protect{Target: "/proc/sys/kernel/random/boot_id", File: true, Instead: boot,
		Fleeting: p.Base == OnEngine}}) // an engine's own kernel may have none
}

// cover adds a Cover, and before the first that needs it what it hides a path behind.
func (p *Plan) cover(t sandbox.Protect) {
	if behind := p.Base.Behind(t); behind != "" && t.Instead == "" && !p.made[behind] {
		p.made[behind] = true
		if t.File {
			p.add(File{sandbox.File{Path: sandbox.GuestPath(behind), Mode: 0o444}})
		} else {
			p.add(Folder{Path: behind, Mode: 0o555})
		}
	}
	p.add(Cover{t})
}

func (p *Plan) devices() {
	p.add(Folder{Path: "/dev", Mode: 0o755})
	for _, name := range Devices() {
		p.add(Device{name})
	}
	p.add(Folder{Path: "/dev/pts", Mode: 0o755}, Terminals{sandbox.MaxTerminals})
	for _, l := range deviceLinks() {
		p.add(Link{sandbox.Link{Path: sandbox.GuestPath("/dev/" + l[0]), Target: l[1]}})
	}
}

// etc makes the parts of /etc that are the same in every cloister.
func (p *Plan) etc() {
	p.folder("/etc")
	for _, f := range p.Etc {
		p.found(f)
	}
	if p.Base == OnHost {
		p.add(Folder{Path: "/etc/pki/tls/certs", Mode: 0o755},
			Link{sandbox.Link{Path: "/etc/pki/tls/certs/ca-bundle.crt", Target: "/etc/ssl/certs/ca-certificates.crt"}},
			Link{sandbox.Link{Path: "/etc/ssl/cert.pem", Target: "certs/ca-certificates.crt"}})
	}
	if p.Chromium {
		p.add(File{sandbox.ChromiumFlags})
	}
	p.text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: "+
		"files\nprotocols: files\nservices: files\n")
	p.text("/etc/resolv.conf", "# The guardian answers. No question leaves this cloister.\nnameserver "+gate.Addr4+
		"\noptions edns0 timeout:3 attempts:2\n")
	p.text("/etc/host.conf", "multi on\n")
}

func (p *Plan) text(at sandbox.GuestPath, text string) {
	p.add(File{sandbox.File{Path: at, Data: []byte(text), Mode: 0o644}})
}

// folder makes a folder of the root; an engine's image has its own.
func (p *Plan) folder(at string) {
	if p.Base != OnEngine {
		p.add(Folder{Path: at, Mode: 0o755})
	}
}

const varTmp = "/var/tmp"

// temporary makes the folders that everybody inside may write to: natively one memory, an engine's
// own bound is for each.
func (p *Plan) temporary() {
	if p.Base == OnEngine {
		for _, at := range Temporary() {
			p.add(Memory{at})
		}
		return
	}
	p.add(Folder{Path: "/tmp", Mode: 0o1777}, Memory{"/tmp"})
	for _, at := range []string{"/var", "/run", "/mnt", "/var/cache", "/var/lib", "/var/log", "/home"} {
		p.folder(at)
	}
	if p.VarTmp {
		p.add(Same{varTmp, "/tmp"})
	} else {
		p.add(Link{sandbox.Link{Path: varTmp, Target: "../tmp"}})
	}
}

// Temporary are the writable folders that last as long as the box.
func Temporary() []string { return []string{"/tmp", varTmp} }

// Rest is what one box shows, protects and seals.
func (p *Plan) Rest(s sandbox.Spec) []Step {
	p.steps = make([]Step, 0, 16+len(s.Binds)+len(s.Files)+len(s.Links)+len(s.Protect))
	p.names(s)
	if p.Base != OnEngine && !p.VarTmp && bindsBelow(s, varTmp) {
		// No mount is made through the link to /tmp.
		p.add(Folder{Path: varTmp, Mode: 0o1777, Instead: true}, Same{varTmp, "/tmp"})
	}
	p.binds(s.Binds)
	for _, f := range s.Files {
		p.add(File{f})
	}
	for _, l := range s.Links {
		p.add(Link{l})
	}
	for _, t := range s.Protect {
		p.cover(t)
	}
	p.add(Seal{})
	return p.take()
}

// names makes the files of /etc that tell who and where the payload is. The
// first entry of an id counts, so the payload's stands before the image's.
func (p *Plan) names(s sandbox.Spec) {
	passwd, groups, u, gid := p.Passwd, p.Groups, s.User, p.GID
	if passwd == "" {
		passwd = "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	}
	if groups == "" {
		groups = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"
	}
	if gid == 0 {
		gid = u.ID
	}
	host := Hostname(s.Name)
	p.text("/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n%s", u.Name, u.ID, gid, u.Home, passwd))
	p.text("/etc/group", fmt.Sprintf("%s:x:%d:\n%s", u.Name, gid, groups))
	p.text("/etc/hostname", host+"\n")
	p.text("/etc/hosts", string(gate.Hosts(host, s.Peers)))
}

func bindsBelow(s sandbox.Spec, dir string) bool {
	for _, b := range s.Binds {
		if strings.HasPrefix(string(b.Target), dir+"/") {
			return true
		}
	}
	return false
}

// Stage is what lies beside the view of a hosted kernel: its root, with what a program expects
// of one.
func (p *Plan) Stage() []Step {
	h := p.Hosted
	p.add(Root{}, Proc{h.Bounds})
	p.devices()
	p.add(Folder{Path: StatePath, Mode: 0o700}, Folder{Path: "/tmp", Mode: 0o700}, Folder{Path: ViewPath, Mode: 0o755},
		Bind{h.Program})
	for _, f := range h.Files {
		p.add(File{f})
	}
	p.binds(h.Beside)
	for _, name := range h.Devices {
		p.add(Device{name})
	}
	if h.System {
		for _, f := range p.System {
			p.found(f)
		}
		if p.CPUs {
			p.add(Bind{sandbox.Bind{Source: CPUs, Target: CPUs, System: true}})
		}
	}
	return p.take()
}
