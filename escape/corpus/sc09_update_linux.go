package corpus

import (
	"cloister/escape"
	"os"
	"runtime"
	"strings"
)

func sc09() escape.Case {
	return escape.Case{
		ID: "SC-09", Class: "self-update", Attack: "have cloister replaced: there is no command that updates it or loads a bundle; one of another build does not speak with this guardian; an image whose bytes are not its digest's is refused",
		Source: "SC-09", Layers: []string{"no update", "image digests"},
		Except: map[escape.Column]string{escape.User: noImages},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			sum := func() string {
				res, err := r.w.Exec("sha256sum", r.w.Cloister)
				if err != nil {
					return err.Error()
				}
				return res.Stdout
			}
			was := sum()
			var out []escape.Finding
			for _, words := range []string{"update", "upgrade", "self-update", "selfupdate", "guardian update", "policy pull https://evil.test/x", "policy update", "image update"} {
				res := r.cloister(strings.Fields(words)...)
				out = append(out, found("cloister "+words, res.Status == 2, "%d %s", res.Status, res.Stderr))
			}
			inside := r.cloister("run", "-C", r.project, "--expose", r.w.Cloister+":ro", "--", "sh", "-c", "wc -c <"+r.w.Cloister+"; echo x >>"+r.w.Cloister+" || mv /bin/sh "+r.w.Cloister)
			size, err := os.Stat(r.w.Cloister)
			out = append(out, found("control: inside it is shown", err == nil && strings.HasPrefix(inside.Stdout, itoa(int(size.Size()))+"\n"), "%q %v", inside.Stdout, err))
			out = append(out, found("written from inside", inside.Status != 0, "%d %q %s", inside.Status, inside.Stdout, inside.Stderr), found("it is as it was", sum() == was && len(was) > 64, "%s %s", was, sum()))
			// An OCI layout whose layer, and then whose manifest, is another than its digest says.
			layout := r.base + "/layout"
			make := "set -e; rm -rf " + layout + "; mkdir -p " + layout + "/blobs/sha256 " + layout + "/fs/bin " + layout + "/fs/var/tmp; cd " + layout + "; cp /bin/true fs/bin/true; tar -C fs -cf layer.tar .; d() { sha256sum \"$1\" | cut -d' ' -f1; }; l=$(d layer.tar); ls=$(stat -c %s layer.tar); mv layer.tar blobs/sha256/$l; " +
				`printf '{"architecture":"%s","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"config":{}}' ` + runtime.GOARCH + ` $l >c; c=$(d c); cs=$(stat -c %s c); mv c blobs/sha256/$c; ` +
				`printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' $c $cs $l $ls >m; m=$(d m); ms=$(stat -c %s m); mv m blobs/sha256/$m; ` +
				`printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s}]}' $m $ms >index.json; printf '{"imageLayoutVersion":"1.0.0"}' >oci-layout; echo $l $c $m`
			made := r.host(make)
			digests := strings.Fields(made.Stdout)
			if made.Status != 0 || len(digests) != 3 {
				return append(out, found("make an image", false, "%d %s", made.Status, made.Stderr))
			}
			for i, name := range []string{"layer", "configuration", "manifest"} {
				again := r.host(make + " >/dev/null; dd if=/dev/zero of=" + layout + "/blobs/sha256/" + digests[i] + " bs=1 count=1 seek=40 conv=notrunc 2>/dev/null")
				res := r.cloister("run", "-C", r.project, "--image", layout, "--", "/bin/true")
				out = append(out, found("an image with another "+name, again.Status == 0 && res.Status != 0, "%d %s", res.Status, res.Stderr))
			}
			r.host(make)
			good := r.cloister("run", "-C", r.project, "--image", layout, "--", "/bin/nothing")
			return append(out, found("control: as its digests say it is unpacked", strings.Contains(good.Stderr, "nothing") && good.Status == 127, "%d %s", good.Status, good.Stderr))
		}),
	}
}
