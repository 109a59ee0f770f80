package corpus

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"cloister/escape"
)

func pr22() escape.Case {
	return escape.Case{
		ID: "PR-22", Class: "disk and inode fill", Attack: "write until nothing is left: into /tmp and the root, which are bounded in bytes and files, and into a project on a small disk of its own, by bytes and by files; the record lies elsewhere and goes on",
		Source: "PR-22", Layers: []string{"size of /tmp", "warning"},
		Except: map[escape.Column]string{
			escape.Docker: "the engine mounts what is there already, not a disk that this case makes",
			escape.User:   "the disk of this case lies in a user namespace, in which root's helper is another",
		},
		Host: func(w *escape.World) []escape.Finding {
			bounds := w.Outcome(nil, "sh", "-c", "for d in / /tmp /dev/shm /var/tmp; do stat -f -c '%n %b %S %c' $d; done; stat -f -c 'project %b %S %c' .")
			out := []escape.Finding{found("it ran", bounds.Status == 0, "status %d: %s", bounds.Status, bounds.Stderr)}
			for line := range strings.Lines(bounds.Stdout) {
				f := strings.Fields(line)
				if len(f) != 4 || f[0] == "project" {
					continue
				}
				blocks, size, files := number(f[1]), number(f[2]), number(f[3])
				out = append(out, found(f[0]+" is bounded in bytes and files", blocks > 0 && blocks*size < 64<<30 && files > 0 && files < 1<<24, "%s", line))
			}
			// Namespaces of their own, where a small disk can be mounted as anybody; the
			// guardian starts outside of them, as always.
			small := w.Base + "/small"
			fill := func(name, script string) escape.Result { // another folder each: a project is pinned
				if err := w.Write(small+"/.keep", ""); err != nil {
					return escape.Result{Stderr: err.Error(), Status: -1}
				}
				words, back := []string{"--mount"}, "exec "
				if !w.ByRoot { // root in a namespace is nobody's root: who starts it is oneself again
					words, back = []string{"--user", "--map-root-user", "--mount"}, fmt.Sprintf("exec unshare --user --map-user=%d --map-group=%d ", os.Getuid(), os.Getgid())
				}
				// It stays full until the person was warned, however busy the machine is.
				res, err := w.Exec("unshare", append(words, "sh", "-c",
					"mount -t tmpfs -o size=24m,nr_inodes=2000,mode=1777 none "+small+" && cd "+small+" && mkdir -m 777 "+name+" && cd "+name+" && { ("+back+w.Cloister+" run -- sh -c '"+script+"') >../../out22 2>../../err22 & } && "+
						"while kill -0 $! && ! { grep -q full ../../out22 && grep -q 'nearly full' ../../err22; }; do sleep 0.1; done; kill $!; wait $!; cat ../../out22; cat ../../err22 >&2")...)
				if err != nil {
					res.Stderr += err.Error()
				}
				return res
			}
			defer clean(small, w.Base+"/out22", w.Base+"/err22")
			if res := w.Outcome(nil, "true"); res.Status != 0 {
				return append(out, found("the guardian runs", false, "%s", res.Stderr))
			}
			for name, script := range map[string]string{
				"bytes": "cat /dev/zero >fill; echo full $?; sleep 60",
				"files": "i=0; while true; do true >f$i || break; i=$((i+1)); done 2>/dev/null; echo full $i; sleep 60",
			} {
				res := fill(name, script)
				out = append(out,
					found("filled by "+name, strings.Contains(res.Stdout, "full"), "status %d: %s%s", res.Status, res.Stdout, res.Stderr),
					found("the person is told of "+name, strings.Contains(res.Stderr, "nearly full"), "%s", res.Stderr))
			}
			verify, err := w.Exec(w.Cloister, "audit", "verify")
			events, everr := w.Events()
			stops := 0
			for _, e := range events {
				if e.Kind == "session.stop" {
					stops++
				}
			}
			after := w.Outcome(nil, "sh", "-c", "echo x >after22; cat after22; rm after22")
			calm := w.Outcome(nil, "true")
			return append(out,
				found("the record is whole, with the end of each", err == nil && verify.Status == 0 && everr == nil && stops >= 4, "%v %d stops %s", everr, stops, verify.Stderr),
				found("another project is written as before", after.Stdout == "x\n", "status %d: %s", after.Status, after.Stderr),
				found("control: without it nobody is warned", calm.Status == 0 && !strings.Contains(calm.Stderr, "nearly full"), "%s", calm.Stderr))
		},
	}
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
