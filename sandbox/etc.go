package sandbox

import "path/filepath"

// etcFolders and EtcFiles are the parts of the host's /etc that every cloister on
// the host's own system has: what programs need to run. All else of /etc is
// absent: it holds host keys, host names and other services. Of PHP's there are only the
// lists of extensions: its other folders hold passwords of services.
var (
	etcFolders = []string{
		"alternatives", "fonts", "java-17-openjdk", "java-21-openjdk", "maven", "php/*/mods-available", "php/*/cli/conf.d",
	}
	EtcFiles = []string{"debian_version", "ld.so.cache", "ld.so.conf", "lsb-release", "localtime", "magic", "mime.types",
		"os-release", "protocols", "services", "shells", "timezone", "login.defs"}
)

// etcMade are files of /etc that are made anew for each cloister.
var etcMade = []string{
	"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "host.conf", "gitconfig",
	"chromium.d/cloister", "chromium/policies", "firefox/policies",
	"opt/chrome/policies", "opt/chrome_for_testing/policies",
	"ssl/certs/ca-certificates.crt", "ssl/certs/java/cacerts", "ssl/cert.pem", "ssl/openssl.cnf",
	"pki/tls/certs/ca-bundle.crt",
}

// ChromiumFlags is a file that Debian's launcher of chromium reads, wherever there is a
// chromium: it stops at an /etc/chromium.d without any. Chromium's own sandbox needs
// namespaces, which a cloister refuses, and would be a wall inside a wall; without the
// flag it does not start.
var ChromiumFlags = File{
	Path: "/etc/chromium.d/cloister",
	Data: []byte("# The cloister is the sandbox; chromium's own needs namespaces, which are refused inside.\n" +
		"export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\"\n"),
	Mode: 0o644,
}

// Chromium is the launcher.
const Chromium = "/usr/bin/chromium"

// EtcFolders are the paths of the folders of /etc that there are here and that are shown.
func EtcFolders() []string {
	var out []string
	for _, name := range etcFolders {
		found, _ := filepath.Glob("/etc/" + name) // the patterns are ours
		out = append(out, found...)
	}
	return out
}

// OwnEtc are all paths of /etc that a cloister on the host's own system may have.
func OwnEtc() []string {
	out := EtcFolders()
	for _, list := range [][]string{EtcFiles, etcMade} {
		for _, name := range list {
			out = append(out, "/etc/"+name)
		}
	}
	return out
}
