package corpus

import (
	"strings"

	"cloister/escape"
)

func af02a() escape.Case {
	return escape.Case{
		ID: "AF-02a", Class: "file of settings becomes a link",
		Attack: "replace a file that a variable or the configuration names, of certificate authorities or of policies, by a link to keys, or write it: the next session shows them, or believes what it says",
		Source: "attack on the next start", Layers: []string{"path resolver", "register of places"},
		Host: between("", func(r *ruled) []escape.Finding {
			home := r.w.Home + "/af02a"
			defer clean(home)
			key, other := home+"/id", r.base+"/other"
			const pem = "-----BEGIN CERTIFICATE-----\ncanary\n"
			made := r.host("mkdir -p " + home + " " + other + "; printf '%s' '" + pem + "' >" + key + "; chmod 600 " + key + "; mkdir venv; cp " + key + " venv/own.pem")
			out := []escape.Finding{worked("keys lie in the home", made)}
			venv := r.project + "/venv"
			const show = "cat /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem; cat $SSL_CERT_FILE 2>/dev/null; true"
			with := func(variable, at string) escape.Result {
				argv := append(r.variables(), variable, r.w.Cloister, "run", "-C", at, "--", "sh", "-c", show)
				res, err := r.w.Exec("env", argv...)
				if err != nil {
					panic(err) // the world cannot run anything
				}
				return res
			}
			// Control: what only the person writes is believed, and shown.
			control := with("SSL_CERT_FILE="+key, other)
			out = append(out, found("control: the person's own file is shown", strings.Contains(control.Stdout, "canary"), "%s", control.Stderr))
			out = append(out, worked("a link is planted", r.run("sh", "-c", "rm -f venv/ca.pem venv/own.pem; ln -s "+key+" venv/ca.pem; ln -s "+home+" up; printf '%s' '"+pem+"' >venv/own.pem; printf 'permit(principal, action, resource);' >p.cedar; ln -s "+key+" link.cedar")))
			out = append(out, found("control: outside the link leads to the key", r.host("cat venv/ca.pem").Stdout == pem, "it does not"))
			for _, file := range []string{venv + "/ca.pem", r.project + "/up/id", venv + "/own.pem"} {
				for _, at := range []string{r.project, other} {
					res := with("SSL_CERT_FILE="+file, at)
					name := file + ", in " + at
					out = append(out, worked(name, res), found(name+": nothing of it is shown", !strings.Contains(res.Stdout, "canary"), "%s", res.Stdout),
						found(name+": what is left out is named", strings.Contains(res.Stderr, "is not read"), "%s", res.Stderr))
				}
				r.settings("version: 1\nproxy: {presets: [], upstream_ca: [" + file + "]}\n")
				res := r.cloister("run", "-C", other, "--", "sh", "-c", show)
				out = append(out, found("proxy.upstream_ca "+file, res.Status != 0 && !strings.Contains(res.Stdout, "canary") && strings.Contains(res.Stderr, "is not read"), "%d %s%s", res.Status, res.Stdout, res.Stderr))
				r.settings("version: 1\nproxy: {presets: []}\n")
			}
			// The guardian would believe what such an authority signs, in every session.
			made = r.host("sed '/END CERT/q' /etc/ssl/certs/ca-certificates.crt >" + home + "/ca.pem; cp " + home + "/ca.pem venv/signs.pem; rm -f up2; ln -s " + home + " up2")
			out = append(out, worked("an authority lies in both", made))
			for file, believed := range map[string]bool{home + "/ca.pem": true, venv + "/signs.pem": false, r.project + "/up2/ca.pem": false} {
				r.settings("version: 1\nproxy: {presets: [], upstream_ca: [" + file + "]}\n")
				res := r.cloister("guardian", "reload")
				out = append(out, found("a reload with upstream_ca "+file, (res.Status == 0) == believed && strings.Contains(res.Stderr, "is not read") != believed, "%d %s", res.Status, res.Stderr))
			}
			r.settings("version: 1\nproxy: {presets: []}\n")
			link := r.cloister("run", "-C", other, "--policy", r.project+"/link.cedar", "--", "true")
			out = append(out, found("--policy by a link", link.Status != 0 && strings.Contains(link.Stderr, "a cloister could write"), "%d %s", link.Status, link.Stderr))
			typed := r.cloister("run", "-C", other, "--policy", r.project+"/p.cedar", "--", "true")
			return append(out, found("--policy that a payload wrote is told", strings.Contains(typed.Stderr, "look at what it says"), "%s", typed.Stderr))
		}),
	}
}
