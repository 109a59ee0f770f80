package corpus

import (
	"strings"

	"cloister/escape"
)

func af03() escape.Case {
	return escape.Case{
		ID: "AF-03", Class: "exposed path becomes a link",
		Attack: "replace what the person shows by name, a folder above it, or one that is not there yet, by a link to keys between two sessions: of --expose, --ref, -C and of the configuration",
		Source: "independent audit: workspace/plan.go", Layers: []string{"path resolver", "register of places"},
		Host: between("", func(r *ruled) []escape.Finding {
			home := r.w.Home + "/af03"
			defer clean(home)
			keys, data := home+"/keys", home+"/data"
			other := r.base + "/other"
			r.host("mkdir -p " + keys + " " + data + "/in " + other + "; echo canary >" + keys + "/id; chmod 600 " + keys + "/id; echo free >" + data + "/in/id")
			before := "version: 1\nproxy: {presets: []}\n"
			config := func(filesystem string) {
				if err := r.write(before + filesystem); err != nil {
					panic(err) // the world's own folder
				}
				r.cloister("guardian", "reload")
			}
			config("filesystem: {expose: [\"" + data + ":rw\"]}\n")
			control := r.run("cat", data+"/in/id")
			out := []escape.Finding{found("control: what is named is shown", control.Stdout == "free\n", "%s", control.Stderr)}
			plant := "cd " + data + "; rm -rf in later above; ln -s " + keys + " in; ln -s " + keys + " later; ln -s " + home + " above; ln -s hop chain; ln -s " + keys + " hop; " +
				"cd " + r.project + "; ln -s " + keys + " out; ln -s " + home + " up; mkdir -p real/in; ln -s " + keys + "/id file"
			out = append(out, worked("links are planted", r.run("sh", "-c", plant)))
			config("")
			show := "cat " + keys + "/id " + data + "/*/id /refs/*/id ./id ./*/id /refs/file 2>/dev/null; echo bad >" + keys + "/id; ls -R /refs " + keys + " 2>/dev/null; true"
			try := func(name string, words ...string) {
				res := r.cloister(append(append([]string{"run"}, words...), "--", "sh", "-c", show)...)
				out = append(out, found(name, res.Status != 0 && !strings.Contains(res.Stdout, "canary"), "%d %s%s", res.Status, res.Stdout, res.Stderr),
					found(name+": it is named with where it leads", strings.Contains(res.Stderr, "a cloister could write") && strings.Contains(res.Stderr, keys), "%s", res.Stderr),
					r.unchanged(keys+"/id", "canary\n"))
			}
			for _, at := range []string{"/in", "/later", "/above/keys", "/chain", "/in/id"} {
				try("--expose "+at, "-C", other, "--expose", data+at)
				try("--expose :rw "+at, "-C", other, "--expose", data+at+":rw")
				config("filesystem: {expose: [\"" + data + at + ":rw\"]}\n")
				try("filesystem.expose "+at, "-C", other)
				config("")
			}
			try("--ref", "-C", other, "--ref", data+"/in")
			config("filesystem: {refs: [" + data + "/later]}\n")
			try("filesystem.refs", "-C", other)
			config("")
			for _, at := range []string{"/out", "/up/keys", "/file"} {
				try("--expose of the project's own "+at, "-C", r.project, "--expose", r.project+at)
			}
			try("-C", "-C", r.project+"/out")
			try("-C, a folder above", "-C", r.project+"/up/keys")
			try("-C of what was exposed", "-C", data+"/later")
			in := r.host("cd up/keys && " + strings.Join(r.variables(), " ") + " PWD=" + r.project + "/up/keys " + r.w.Cloister + " run -- sh -c '" + show + "'")
			out = append(out, found("the current folder", in.Status != 0 && !strings.Contains(in.Stdout, "canary"), "%d %s%s", in.Status, in.Stdout, in.Stderr))
			// Who types where it leads means that.
			typed := r.cloister("run", "-C", other, "--expose", keys, "--", "cat", keys+"/id")
			raw := r.host("cat " + data + "/in/id")
			return append(out, found("control: typed, it is shown", typed.Stdout == "canary\n", "%d %s", typed.Status, typed.Stderr),
				found("control: outside the link leads there", raw.Stdout == "canary\n", "%s", raw.Stderr))
		}),
	}
}
