package realtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A tlsClient is a program that asks for a page by TLS, each finding authorities in its
// own way.
type tlsClient struct {
	name, version, by string
	script            string // in a POSIX shell inside, $URL is the page
	pins              string // what to do, where it refuses the session's authority
	record            string // what the record then says
}

const brokeOff = "the program broke the TLS handshake off"

const page = "https://" + readHost + "/page"

var tlsClients = []tlsClient{
	{name: "wget", version: "wget --version | head -1 | cut -d' ' -f3", by: "GnuTLS, the system's file", script: "wget -qO- $URL"},
	{name: "gnutls-cli", version: "gnutls-cli --version | head -1 | cut -d' ' -f2", by: "GnuTLS, the system's file",
		script: `printf 'GET /page HTTP/1.1\r\nHost: ` + readHost + `\r\nConnection: close\r\n\r\n' | gnutls-cli ` + readHost},
	{name: "HTTPie", version: "http --version", by: "Python's requests", script: "http --ignore-stdin $URL"},
	{name: "Python's requests", version: "/usr/bin/python3 -c 'import requests; print(requests.__version__)'", by: "`REQUESTS_CA_BUNDLE`",
		script: `/usr/bin/python3 -c 'import requests; print(requests.get("'$URL'").text)'`},
	{name: "Python's httpx", version: "/usr/bin/python3 -c 'import httpx; print(httpx.__version__)'", by: "`SSL_CERT_FILE`",
		script: `/usr/bin/python3 -c 'import httpx; print(httpx.get("'$URL'").text)'`},
	{name: "Python's aiohttp", version: "/usr/bin/python3 -c 'import aiohttp; print(aiohttp.__version__)'", by: "OpenSSL, `SSL_CERT_FILE`",
		script: `/usr/bin/python3 -c 'import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession() as s:
        async with s.get("'$URL'") as r: print(await r.text())
asyncio.run(main())'`},
	{name: "Ruby's net/http", version: "ruby -e 'print RUBY_VERSION'", by: "OpenSSL, `SSL_CERT_FILE`",
		script: `ruby -rnet/http -e 'puts Net::HTTP.get(URI("'$URL'"))'`},
	{name: "PHP, streams", version: "php -r 'echo PHP_VERSION;'", by: "OpenSSL, `SSL_CERT_FILE`", script: `php -r 'echo file_get_contents("'$URL'");'`},
	{name: "PHP, curl", version: "php -r 'echo PHP_VERSION;'", by: "curl's library, the system's file",
		script: `php -r '$c = curl_init("'$URL'"); curl_exec($c); fwrite(STDERR, curl_error($c));'`},
	{name: "Composer", version: "composer --version 2>/dev/null | cut -d' ' -f3", by: "`SSL_CERT_FILE`", script: `cd /tmp && COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_HOME=/tmp/c composer -n diagnose >/dev/null 2>&1
		printf '{"repositories": [{"packagist.org": false}, {"type": "composer", "url": "%s"}]}' $URL >composer.json; COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_HOME=/tmp/c composer -n show --available`},
	{name: "Perl's LWP", version: "perl -MLWP -e 'print $LWP::VERSION'", by: "IO::Socket::SSL, the system's files",
		script: `perl -MLWP::Simple -e 'getprint("'$URL'")'`},
	{name: "Perl's HTTP::Tiny", version: "perl -MHTTP::Tiny -e 'print $HTTP::Tiny::VERSION'", by: "`SSL_CERT_FILE`",
		script: `perl -MHTTP::Tiny -e 'print HTTP::Tiny->new(verify_SSL => 1)->get("'$URL'")->{content}'`},
	{name: "Erlang's httpc", version: "erl -noshell -eval 'io:format(\"~s\", [erlang:system_info(otp_release)]), halt().'", by: "the system's file",
		script: `erl -noshell -eval 'inets:start(), ssl:start(), R = httpc:request(get, {"'$URL'", []}, [{ssl, [{verify, verify_peer}, {cacerts, public_key:cacerts_get()}, {customize_hostname_check, [{match_fun, public_key:pkix_verify_hostname_match_fun(https)}]}]}], []), io:format("~p", [R]), halt().'`},
	{name: "Maven", version: "mvn -v 2>/dev/null | head -1 | cut -d' ' -f3 | tr -d '\\033' | sed 's/\\[.*//'", by: "Java's trust store of the session",
		script: `mkdir -p /tmp/m && cd /tmp/m && printf '<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version><repositories><repository><id>central</id><url>%s</url></repository></repositories><pluginRepositories><pluginRepository><id>central</id><url>%s</url></pluginRepository></pluginRepositories></project>' $URL $URL >pom.xml && mvn -B -Dmaven.repo.local=/tmp/m/repo validate clean`},
	{name: "Deno", version: "deno --version | head -1 | cut -d' ' -f2", by: "Rust, `DENO_CERT`", script: `DENO_DIR=/tmp/deno deno eval 'console.log(await (await fetch("'$URL'")).text())'`},
	{name: "Bun", version: "bun --version", by: "BoringSSL, `NODE_EXTRA_CA_CERTS`", script: `bun -e 'console.log(await (await fetch("'$URL'")).text())'`},
	{name: "Firefox, headless", version: "firefox-esr --version 2>/dev/null | cut -d' ' -f3", by: "the policy `Certificates` in `/etc/firefox/policies`",
		script: "cd /tmp && timeout 60 firefox-esr --headless --screenshot /tmp/page.png $URL"},
	{name: "Node with `--use-bundled-ca` and its variable taken away", version: "node --version", by: "its own list",
		script: `env -u NODE_EXTRA_CA_CERTS node --use-bundled-ca -e 'fetch("'$URL'").then(r => r.text()).then(console.log)'`, pins: "leave `NODE_EXTRA_CA_CERTS` as it is", record: brokeOff},
	{name: "Python with authorities of its own", version: "/usr/bin/python3 -c 'import platform; print(platform.python_version())'", by: "`cafile=` in code",
		script: `/usr/bin/python3 -c 'import ssl, urllib.request as u; c = ssl.create_default_context(cafile="/usr/share/ca-certificates/mozilla/ISRG_Root_X1.crt"); print(u.urlopen("'$URL'", context=c).read())'`,
		pins:   "a rule with `tls: tunnel`", record: brokeOff},
	{name: "curl with a pinned key", version: "curl --version | head -1 | cut -d' ' -f2", by: "`--pinnedpubkey`",
		script: "curl -sS --pinnedpubkey sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= $URL",
		pins:   "a rule with `tls: tunnel`", record: "net.connect close"},
}

// TestCertificates asks many kinds of programs for a page through an opened connection,
// and writes the rows of docs/clients.md: which get it, and which refuse the session's
// authority, as the record says. `script/test clients` installs them.
func TestCertificates(t *testing.T) {
	prefix := os.Getenv("CLOISTER_CLIENTS")
	if prefix == "" {
		t.Skip("minutes, and programs to install: script/test clients")
	}
	w := newWorld(t)
	w.env["PATH"] = filepath.Join(prefix, "bin") + ":" + filepath.Dir(need(t, "node", "node")) + ":" + w.env["PATH"]
	w.net.handle(readHost, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintln(rw, "a page") }))
	w.configure()
	w.must("true")
	var rows strings.Builder
	for _, c := range tlsClients {
		before, journal := len(w.requests(http.StatusOK)), len(w.journal())
		res := w.run("sh", "-c", "URL="+page+"\n"+c.script)
		version := w.run("sh", "-c", c.version)
		got := len(w.requests(http.StatusOK)) > before
		does := "works"
		if !got {
			does = "refuses: " + c.pins
		}
		fmt.Fprintf(&rows, "| %s, %s | %s | %s |\n", c.name, strings.TrimSpace(version.stdout), c.by, does)
		if got != (c.pins == "") {
			t.Errorf("%s: a page %v; status %d, %.300s %.600s", c.name, got, res.status, res.stdout, res.stderr)
		}
		if !got && !strings.Contains(w.journal()[journal:], c.record) {
			t.Errorf("%s: the record does not say why:\n%s", c.name, w.journal()[journal:])
		}
	}
	if t.Failed() {
		return
	}
	fmt.Fprintf(&rows, "\n%s.\n", time.Now().UTC().Format("2 Jan 2006"))
	keepRows(t, "../../../docs/clients.md", rows.String())
}
