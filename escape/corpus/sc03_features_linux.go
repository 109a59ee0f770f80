package corpus

import (
	"runtime"
	"strings"

	"cloister/escape"
)

func sc03() escape.Case {
	return escape.Case{
		ID: "SC-03", Class: "features and digests", Attack: "a repository names features of unknown registries, another image and a digest that is another's in its lock: nothing is fetched; a digest that a person wrote is the only image that starts, whatever the name leads to now",
		Source: "devcontainer spec #428", Layers: []string{"launcher", "image digests"},
		Except: map[escape.Column]string{escape.User: noImages},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			for name, text := range powers() {
				if err := r.w.Write(r.project+"/"+name, text); err != nil {
					return escape.NoHost("write "+name, err)
				}
			}
			// A proposal of the repository names an image: nobody trusted it.
			if err := r.w.Write(r.project+"/.cloister.yaml", "image: evil.test/image:latest\n"); err != nil {
				return escape.NoHost("write a proposal", err)
			}
			res := r.run("sh", "-c", "true")
			events := r.cloister("audit", "tail", "-n", "0", "--json")
			names := []string{"evil.test", "ghcr.io", "nobody/evil"}
			out := []escape.Finding{
				found("it starts as without", res.Status == 0, "status %d: %s", res.Status, res.Stderr),
				found("nothing was asked for", len(unwanted(events.Stdout, names...)) == 0, "%.800s", events.Stdout),
			}
			clean(r.project + "/.cloister.yaml")
			layout := r.base + "/layout"
			digest := r.host(layoutOf(layout, "one")).Stdout
			first := strings.TrimSpace(digest)
			moved := strings.TrimSpace(r.host(layoutOf(layout, "two")).Stdout)
			pinned := r.cloister("run", "-C", r.project, "--image", layout+"@"+first, "--", "/bin/nothing")
			right := r.cloister("run", "-C", r.project, "--image", layout+"@"+moved, "--", "/bin/nothing")
			return append(out,
				found("two images were made", strings.HasPrefix(first, "sha256:") && strings.HasPrefix(moved, "sha256:") && first != moved, "%q %q", first, moved),
				found("a name that leads to another digest does not start", pinned.Status == 125, "status %d: %s", pinned.Status, pinned.Stderr),
				found("control: by its digest it is unpacked", right.Status == 127, "status %d: %s", right.Status, right.Stderr))
		}),
	}
}

// layoutOf writes an OCI layout of one layer with a file of a text, and prints
// the manifest's digest.
func layoutOf(dir, text string) string {
	return "set -e; rm -rf " + dir + "; mkdir -p " + dir + "/blobs/sha256 " + dir + "/fs/bin " + dir + "/fs/var/tmp; cd " + dir + "; cp /bin/true fs/bin/true; echo " + text + " >fs/text; tar -C fs -cf layer.tar .; d() { sha256sum \"$1\" | cut -d' ' -f1; }; l=$(d layer.tar); ls=$(stat -c %s layer.tar); mv layer.tar blobs/sha256/$l; " +
		`printf '{"architecture":"%s","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"config":{}}' ` + runtime.GOARCH + ` $l >c; c=$(d c); cs=$(stat -c %s c); mv c blobs/sha256/$c; ` +
		`printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' $c $cs $l $ls >m; m=$(d m); ms=$(stat -c %s m); mv m blobs/sha256/$m; ` +
		`printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s}]}' $m $ms >index.json; printf '{"imageLayoutVersion":"1.0.0"}' >oci-layout; echo sha256:$m`
}
