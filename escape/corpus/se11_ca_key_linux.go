package corpus

import (
	"cloister/escape"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func se11() escape.Case {
	return escape.Case{
		ID: "SE-11", Class: "CA key", Attack: "find the key that signs for opened connections, have a denied name signed, use one session's authority in another or outside",
		Source: "leash's /leash-private; mkcert's warning", Layers: []string{"view", "certificates", "policy"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			r.one = false // each session has its own
			system, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
			if err != nil {
				return escape.NoHost("read the host's authorities", err)
			}
			// Of the bundle inside the session's own certificate is what the host's has not.
			bundle := func() (string, escape.Finding) {
				res := r.cloister("run", "-C", r.project, "--", "sh", "-c", "cat \"$SSL_CERT_FILE\"; cat /etc/ssl/certs/ca-certificates.crt | wc -c; grep -l 'PRIVATE[ ]KEY' -r /etc/ssl \"$(dirname $SSL_CERT_FILE)\" /tmp /work \"$HOME\" 2>/dev/null || echo none")
				var own []string
				for _, c := range strings.SplitAfter(res.Stdout, "-----END CERTIFICATE-----\n") {
					if strings.HasSuffix(c, "-----END CERTIFICATE-----\n") && !strings.Contains(string(system), c) {
						own = append(own, c)
					}
				}
				one := len(own) > 0 && res.Status == 0
				return strings.Join(own, ""), found("inside are certificates, and no key", one && strings.HasSuffix(res.Stdout, "none\n") && !strings.Contains(res.Stdout, "PRIVATE KEY"), "%d of its own; %.100s %s", len(own), res.Stdout[max(0, len(res.Stdout)-100):], res.Stderr)
			}
			first, inside := bundle()
			second, again := bundle()
			kept, err := holding([]string{r.base}, "PRIVATE KEY")
			if err != nil {
				return escape.NoHost("search cloister's folders", err)
			}
			after, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
			return []escape.Finding{
				inside, again,
				found("each session has another one", first != second, "%.200s", first),
				found("no file of cloister's has a key", len(kept) == 0, "%q", kept),
				found("the host's authorities are as they were", err == nil && string(after) == string(system), "%v", err),
				r.kept("a denied name is not signed for", false, "tls:denied.test", get("denied.test", "/")),
				r.swapped(),
			}
		}),
	}
}

// holding are the files below folders that hold a text.
func holding(dirs []string, text string) ([]string, error) {
	var out []string
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(data), text) {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
