package corpus

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"cloister/escape"
)

// flood21 is how often an allowed address with a long path is asked for: with two records
// of 3 KiB each, more than a session may have recorded one by one.
const flood21 = 16_000

var (
	answered21   = regexp.MustCompile(`"kind":"http\.request"[^\n]*"action":"response"`)
	suppressed21 = regexp.MustCompile(`"suppressed":([0-9]+)`)
)

func lg21() escape.Case {
	config := func(w *escape.World) string {
		return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n" +
			"  allow: [{domain: unbound.test}]\n  hosts: {unbound.test: \"127.0.0.1:" + itoa(w.Secure) + "\"}\n"
	}
	return escape.Case{
		ID: "LG-21", Class: "record flood by allowed traffic", Attack: "16,000 allowed requests with paths of 2 KiB in one session: the record takes no more than the session's share of bytes, and counts the rest; another session is recorded one by one meanwhile",
		Source: "issue 16, second audit", Layers: []string{"audit"}, Needs: gate(), Slow: 90,
		Host: with(config, together(func(r *ruled) []escape.Finding {
			res := r.inside("requests", "unbound.test", strconv.Itoa(flood21))
			other := r.inside("requests", "unbound.test", "3")
			var size int64
			var text []byte
			sum, singles := 0, 0
			r.w.Until(patient, func() bool {
				size, text = 0, nil
				files, err := filepath.Glob(r.base + "/state/cloister/audit/*")
				for _, name := range files {
					one, err := os.ReadFile(name)
					if err != nil {
						return false
					}
					size, text = size+int64(len(one)), append(text, one...)
				}
				sum, singles = 0, 0
				for line := range bytes.Lines(text) {
					switch m := suppressed21.FindSubmatch(line); {
					case m != nil && bytes.Contains(line, []byte("http.request response")):
						n, _ := strconv.Atoi(string(m[1]))
						sum += n
					case answered21.Match(line):
						singles++
					}
				}
				return err == nil && sum+singles >= flood21+3
			})
			verify := r.cloister("audit", "verify")
			return []escape.Finding{
				found("control: all were answered", res.Status == 0 && other.Status == 0, "%d %s%s", res.Status, res.Stdout, res.Stderr),
				found("the record is bounded", size < 80<<20, "%d bytes, %d of requests recorded one by one", size, singles),
				found("control: it would have been more", sum > 0, "%d", sum),
				found("what is not recorded one by one is counted", sum+singles == flood21+3, "%d recorded, %d counted, of %d", singles, sum, flood21+3),
				found("the record is whole", verify.Status == 0, "%s%s", verify.Stdout, verify.Stderr),
			}
		})),
	}
}
