package corpus

import (
	_ "embed"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// applied is a payload that prepares what an apply might carry over.
//
//go:embed scripts/applied.sh
var applied string

func st01() escape.Case {
	return escape.Case{
		ID: "ST-01", Class: "what an apply writes",
		Attack: "leave devices, pipes, links out, links in place of folders, whiteouts, hard links, set-id bits, extended attributes, hooks, a sparse file of terabytes and names that steer a terminal for an apply to carry over",
		Source: "issue 19", Layers: []string{"apply"},
		Host: between("", func(r *ruled) []escape.Finding {
			made := r.host(newRepository + "; mkdir -p ../outside swapped; echo canary >../outside/canary; echo x >main.go; echo y >swapped/canary; echo z >whole; chmod -R a+rwX . ../outside")
			before := entries(r.project)
			in := r.overlaid("st01", applied)
			out := []escape.Finding{worked("the project is made", made), worked("the payload", in)}

			// Inside nobody can set the bit; what set it all the same is not carried over.
			for _, layer := range r.layers() {
				out = append(out, worked("a set-id bit", r.host("chmod 6755 "+layer+"/setid")))
			}

			without := r.cloister("apply", "st01")
			out = append(out, found("without a word nothing is written", without.Status == 1 && entries(r.project) == before, "%d %s", without.Status, entries(r.project)),
				found("a link that leads out through another is named", strings.Contains(without.Stdout+without.Stderr, "out4"), "%s%s", without.Stdout, without.Stderr))

			listed := r.cloister("diff", "st01", "--name-only").Stdout
			out = append(out, found("names stay on their lines", strings.Contains(listed, `"line\nbreak"`) && !strings.Contains(listed, "\x1b") && !strings.Contains(listed, "\nbreak"), "%q", listed))

			out = append(out, r.carried()...)

			// The sparse file would fill the disk as it is; the rest is applied with the word.
			dropped := r.cloister("discard", "st01", r.project+"/sparse")
			with := r.cloister("apply", "st01", "--auto-run")
			out = append(out, worked("the sparse file is given up", dropped), worked("the apply", with), r.same("main.go", "x\nours\n"))
			mode := func(name string) uint32 {
				var st unix.Stat_t
				if unix.Lstat(r.project+"/"+name, &st) != nil {
					return 0
				}
				return st.Mode
			}
			value := make([]byte, 8)
			n, xerr := unix.Getxattr(r.project+"/plain", "user.evil", value)
			canary, err := os.ReadFile(r.base + "/outside/canary")
			out = append(out,
				found("no set-id bit", mode("setid") == unix.S_IFREG|0o755, "mode %o", mode("setid")),
				found("no pipe, no device", mode("pipe") == 0 && mode("null") == 0, "%s", entries(r.project)),
				found("no extended attribute", n <= 0 && xerr != nil, "%q", value),
				found("a hard link is a file of its own", strings.HasPrefix(r.text("hard"), "x\n") && r.host("test main.go -ef hard").Status != 0, "%q", r.text("hard")),
				found("nothing is written through a link", err == nil && string(canary) == "canary\n" && entries(r.base+"/outside") == "canary ----------", "%s", entries(r.base+"/outside")),
				found("no hook of a repository", !r.has("nested/.git"), "%s", entries(r.project+"/nested")),
			)

			again := r.overlaid("st01", "rm swapped; mkdir swapped; echo other >swapped/canary")
			res := r.cloister("apply", "st01", "--auto-run")
			canary, err = os.ReadFile(r.base + "/outside/canary")
			gone := r.cloister("discard", "st01")
			return append(out, worked("all is given up", gone), found("a closed folder is open to its owner", mode("closed") == unix.S_IFDIR|0o700 && r.has("closed/in"), "mode %o", mode("closed")), worked("a later session", again), worked("its apply", res), r.same("swapped/canary", "other\n"),
				found("a folder in place of the link", err == nil && string(canary) == "canary\n", "%v %q", err, canary))
		}),
	}
}

// carried is the control: a plain copy of the layer carries it over.
func (r *ruled) carried() []escape.Finding {
	for _, layer := range r.layers() {
		copied := r.base + "/copied"
		res := r.host("rm -rf " + copied + "; cp -a --sparse=always " + layer + " " + copied + "; test -u " + copied + "/setid && test -L " + copied + "/out1")
		if r.w.Level == escape.GVisor && res.Status == 0 { // its pipes and attributes are its own, and in no layer
			return []escape.Finding{found("control: a copy of the layer carries all of it", true, "")}
		}
		res = r.host("test -p " + copied + "/pipe")
		var value [8]byte
		if n, err := unix.Getxattr(layer+"/plain", "user.evil", value[:]); res.Status == 0 && err == nil && n > 0 {
			return []escape.Finding{found("control: a copy of the layer carries all of it", true, "")}
		}
	}
	return []escape.Finding{found("control: a copy of the layer carries all of it", false, "%q", r.layers())}
}
