package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

func af02b() escape.Case {
	return escape.Case{
		ID: "AF-02b", Class: "file that words name becomes a link",
		Attack: "replace a file or folder that a person's words or the configuration name by a link: settings of srt, the value of a secret, an image, anchors of the record, the project of an imported checkpoint",
		Source: "attack on the next start", Layers: []string{"path resolver", "register of places"},
		Host: between("", func(r *ruled) []escape.Finding {
			home := r.w.Home + "/af02b"
			defer clean(home)
			const settings = `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"allowWrite":[],"denyWrite":[],"denyRead":[]}}`
			made := r.host("mkdir -p " + home + "/mine; cd " + home + "; printf '%s' '" + settings + "' >srt.json; printf 'a canary' >value; " +
				"printf 'no image' >img.tar; : >anchors; chmod 600 *.json value img.tar anchors; printf canary >mine/note")
			out := []escape.Finding{worked("files lie in the home", made)}
			// What a start of an overlay leaves is exported, to be imported over another folder.
			out = append(out, worked("an overlay", r.overlaid("af02b", "echo x >f")),
				worked("a checkpoint of it", r.cloister("checkpoint", "af02b", "-m", "one")),
				worked("its archive", r.cloister("checkpoint", "export", "af02b", home+"/one.checkpoint")))
			defer r.cloister("discard", "af02b")
			// Each is named as it is, and by a link that a session made.
			links := "ln -s " + home + "/srt.json srt.json; ln -s " + home + "/value value; ln -s " + home + "/img.tar img.tar; ln -s " +
				home + "/one.checkpoint one; ln -s " + home + "/mine mine; ln -s " + home + " up"
			out = append(out, worked("links are planted", r.run("sh", "-c", links)),
				found("control: outside they lead to the files", r.host("cat value").Stdout == "a canary", "they do not"))
			p := r.project
			for _, c := range []struct {
				name, mine string
				theirs     []string
				words      func(file string) []string
				also       string // what the words say of one's own file, where they cannot work
			}{
				{"settings of srt", home + "/srt.json", []string{p + "/srt.json", p + "/up/srt.json"},
					func(file string) []string { return []string{"srt", "--settings", file, "true"} }, ""},
				{"the value of a secret", home + "/value", []string{p + "/value", p + "/up/value"},
					func(file string) []string { return []string{"secret", "set", "AF02B", "--file", file} }, ""},
				{"an image", home + "/img.tar", []string{p + "/img.tar", p + "/up/img.tar"},
					func(file string) []string {
						return []string{"run", "-C", home + "/mine", "--image", file, "--", "true"}
					}, "img.tar"},
				{"an archive", home + "/one.checkpoint", []string{p + "/one", p + "/up/one.checkpoint"},
					func(file string) []string {
						return []string{"checkpoint", "import", "-C", home + "/mine", "--name", "af02b-archive", file}
					}, ""},
				{"the project of an archive", home + "/mine", []string{p + "/mine", p + "/up/mine"},
					func(dir string) []string {
						return []string{"checkpoint", "import", "-C", dir, "--name", "af02b-project", home + "/one.checkpoint"}
					}, ""},
			} {
				for _, theirs := range c.theirs {
					res := r.cloister(c.words(theirs)...)
					out = append(out, found(c.name+" by a link: "+theirs, res.Status != 0 && strings.Contains(res.Stderr, "a cloister could write"),
						"%d %s%s", res.Status, res.Stdout, res.Stderr))
				}
				own := r.cloister(c.words(c.mine)...)
				out = append(out, found("control: "+c.name+" of one's own", (own.Status == 0 || c.also != "" && strings.Contains(own.Stderr, c.also)) &&
					!strings.Contains(own.Stderr, "a cloister could write"), "%d %s%s", own.Status, own.Stdout, own.Stderr))
			}
			for _, name := range []string{"af02b-archive", "af02b-project"} {
				r.cloister("discard", name)
			}
			for file, want := range map[string]bool{home + "/anchors": true, p + "/up/anchors": false, p + "/anchors": false} {
				r.settings("version: 1\nproxy: {presets: []}\naudit: {anchor_file: " + file + "}\n")
				before, _ := os.ReadFile(home + "/anchors")
				res := r.cloister("audit", "anchor")
				after, _ := os.ReadFile(home + "/anchors")
				ok := res.Status == 0 && len(after) > len(before)
				if !want {
					ok = res.Status != 0 && len(after) == len(before) && strings.Contains(res.Stderr, "a cloister could write")
				}
				out = append(out, found("anchors in "+file, ok, "%d %s%s", res.Status, res.Stdout, res.Stderr))
			}
			r.settings("version: 1\nproxy: {presets: []}\n")
			// The same words on the command line.
			for _, folder := range []string{home, p + "/up"} {
				before, _ := os.ReadFile(home + "/anchors")
				to, by := r.cloister("audit", "anchor", "--file", folder+"/anchors"), r.cloister("audit", "verify", "--anchors", folder+"/anchors")
				after, _ := os.ReadFile(home + "/anchors")
				refused := func(res escape.Result) bool {
					return res.Status != 0 && strings.Contains(res.Stderr, "a cloister could write")
				}
				ok := folder == home && to.Status+by.Status == 0 && len(after) > len(before) || folder != home && refused(to) && refused(by) && len(after) == len(before)
				out = append(out, found("anchors typed as in "+folder, ok, "%d %s%d %s", to.Status, to.Stderr, by.Status, by.Stderr))
			}
			return out
		}),
	}
}
