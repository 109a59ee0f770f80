package corpus

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"cloister/escape"
)

// canary is the value of a secret that no cloister, file or record may hold.
const canary = "ghp_Canary7f3aQxZvTmWkLpRsYnBgHdJcFuEoAiXw"

// complement is how a search is told of it.
func complement(text string) string {
	b := []byte(text)
	for i := range b {
		b[i] = ^b[i]
	}
	return hex.EncodeToString(b)
}

// secretive configures names that are served in TLS, of which some get TOKEN.
func secretive(w *escape.World) string {
	var b strings.Builder
	b.WriteString("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  allow:\n")
	hosts := map[string]string{}
	for _, name := range append(escape.Bound(), escape.Untrusted()...) {
		fmt.Fprintf(&b, "    - {domain: %s, ports: [443, 80, 8443]}\n", name)
		hosts[name] = "127.0.0.1:" + itoa(w.Secure)
	}
	fmt.Fprintf(&b, "  upstream_ca: [%q]\n  hosts:\n", w.Base+"/authority.pem")
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(&b, "    %q: %q\n", name, hosts[name])
	}
	b.WriteString("secrets:\n  - {name: TOKEN, hosts: [bound.test, wrongname.test, expired.test, selfsigned.test], header: Authorization, format: \"Bearer {}\"}\n")
	return b.String()
}

// vaulted is the Host of a case with the secret TOKEN.
func vaulted(look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return withSecret(secretive, look)
}

// withSecret is the Host of a case with the secret TOKEN, configured in its own way.
func withSecret(config func(w *escape.World) string, look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return with(config, together(func(r *ruled) []escape.Finding {
		file := r.base + "/value"
		if err := os.WriteFile(file, []byte(canary+"\n"), 0o600); err != nil {
			return escape.NoHost("write the secret", err)
		}
		res := r.cloister("secret", "set", "TOKEN", "--file", file)
		if err := os.Remove(file); err != nil {
			return escape.NoHost("remove the secret's file", err)
		}
		if res.Status != 0 {
			return []escape.Finding{found("set the secret", false, "status %d: %s", res.Status, res.Stderr)}
		}
		return look(r)
	}))
}

// inside runs this program inside.
func (r *ruled) inside(words ...string) escape.Result {
	return r.cloister(append([]string{"run", "-C", r.project, "--expose", r.w.Self + ":ro", "--", r.w.Self}, words...)...)
}

// get is a request with what is added to its head.
func get(host, path string, head ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(head, ""), "\r\n") + "\r\n"
}

// post is a request with a body, of which say counts the bytes.
func post(host, path, body string, head ...string) string {
	head = append(head, "Content-Length: auto")
	return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(head, ""), "\r\n") + "\r\n" + body
}

// bearer is the bound place of TOKEN.
const bearer = "Authorization: Bearer ${TOKEN}"

// swapped is the control of every case about a secret: at its place it goes out.
func (r *ruled) swapped() escape.Finding {
	before := len(r.w.Upstream())
	res := r.inside("say", "tls:bound.test", get("bound.test", "/ok/control", bearer))
	sent := strings.Join(r.w.Upstream()[before:], "\n")
	return found("control: at its place the secret goes out, and inside is a placeholder", strings.Contains(sent, canary) && strings.HasPrefix(res.Stdout, "HTTP/1.1 200"), "%s %s; sent: %s", res.Stdout, res.Stderr, sent)
}

// kept tells whether a request was refused, and what came to a server has nothing of
// the secret. Where passes, it may go through: with a placeholder, which is worth nothing.
func (r *ruled) kept(name string, passes bool, words ...string) escape.Finding {
	before := len(r.w.Upstream())
	res := r.inside(append([]string{"say"}, words...)...)
	sent := strings.Join(r.w.Upstream()[before:], "\n")
	leaked := strings.Contains(sent, canary) || strings.Contains(res.Stdout, canary)
	last := res.Stdout[strings.LastIndex(res.Stdout, "HTTP/1.1")+1:]
	refused := strings.HasPrefix(last, "TTP/1.1 403") || strings.HasPrefix(last, "TTP/1.1 421") || strings.HasPrefix(last, "TTP/1.1 400") || strings.HasPrefix(last, "TTP/1.1 502") || strings.Contains(res.Stdout, "error:")
	return found(name, !leaked && (refused || passes) && res.Status == 0, "leaked %t, refused %t: %.300s %.200s; sent: %.600s", leaked, refused, res.Stdout, res.Stderr, sent)
}
