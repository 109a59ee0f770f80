package corpus

import (
	"strings"

	"cloister/escape"
)

func af01() escape.Case {
	return escape.Case{
		ID: "AF-01", Class: "folder of PATH becomes a link",
		Attack: "replace a folder of the person's PATH that one session may write by a link to keys, or put a link into it: the next session shows them",
		Source: "independent audit: toolchains by PATH", Layers: []string{"path resolver", "register of places"},
		Host: between("", func(r *ruled) []escape.Finding {
			home := r.w.Home + "/af01"
			defer clean(home)
			key := home + "/keys/bin/id"
			other := r.base + "/other"
			made := r.host("mkdir -p " + home + "/keys/bin " + home + "/tools " + home + "/bin " + other + " && echo canary >" + key + " && chmod 600 " + key)
			out := []escape.Finding{worked("keys lie in the home", made)}
			venv := r.project + "/venv/bin"
			// look starts sessions with a PATH and says whether one shows the key.
			look := func(name, path string, projects ...string) {
				for _, at := range projects {
					res := r.on(path, "run", "-C", at, "--", "sh", "-c", "cat "+key+" "+path+"/* 2>/dev/null; ls "+home+"/keys "+path+"; true")
					in := name + ", in " + at
					out = append(out, worked(in, res), found(in+": nothing is shown", !strings.Contains(res.Stdout, "canary"), "%s%s", res.Stdout, res.Stderr))
					if at == other && r.w.Kind.Image == "" { // an image has programs of its own, and no PATH of the host
						out = append(out, found(in+": what is left out is named", strings.Contains(res.Stderr, "left out"), "%s", res.Stderr))
					}
				}
			}
			for _, plant := range []struct{ name, script string }{
				{"the folder", "mkdir venv; ln -s " + home + "/keys/bin venv/bin"},
				{"a folder above", "ln -s " + home + "/keys venv"},
				{"a link in it", "mkdir -p venv/bin; ln -s " + key + " venv/bin/tool"},
				{"a chain", "mkdir -p venv; ln -s ../hop venv/bin; ln -s " + home + "/keys/bin hop"},
			} {
				out = append(out, worked(plant.name+" is a link", r.run("sh", "-c", "rm -rf venv hop; "+plant.script)))
				look(plant.name, venv, r.project, other)
			}
			control := r.host("cat venv/bin/id")
			out = append(out, found("control: outside the link leads to the key", control.Stdout == "canary\n", "%s", control.Stderr))
			// The person's own link to such a folder, and the folder under another name later.
			r.host("ln -s " + venv + " " + home + "/mine")
			look("a link of the person's to it", home+"/mine", r.project, other)
			r.host("mv " + r.project + " " + r.base + "/moved && mkdir " + r.project)
			look("the project has another name", r.base+"/moved/venv/bin", other)
			// A project that is a folder of PATH, and one that was shown writable.
			for name, words := range map[string][]string{
				home + "/bin": {"-C", home + "/bin"}, home + "/tools": {"-C", other, "--expose", home + "/tools:rw"},
			} {
				res := r.cloister(append(append([]string{"run"}, words...), "--", "ln", "-s", key, name+"/tool")...)
				out = append(out, worked("a link in "+name, res))
				look(name, name, other)
			}
			// Control: what the person alone made is shown, through links too.
			r.host("mkdir " + home + "/own && cp " + key + " " + home + "/own/tool && mkdir " + home + "/links && ln -s ../own/tool " + home + "/links/tool")
			shown := r.on(home+"/links", "run", "-C", other, "--", "cat", home+"/links/tool")
			if r.w.Kind.Image == "" {
				out = append(out, found("control: a person's own link is followed", shown.Stdout == "canary\n", "%s", shown.Stderr))
			}
			return out
		}),
	}
}
