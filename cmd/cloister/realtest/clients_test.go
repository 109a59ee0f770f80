package realtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// clientKey makes this test binary a program inside: a client of Go's, or gRPC's own
// interop client.
const clientKey = "REALTEST_CLIENT"

// client is what that program does: get a URL, or call at grpc:HOST.
func client(what string) int {
	if host, is := strings.CutPrefix(what, "grpc:"); is {
		return callGRPC(host)
	}
	resp, err := (&http.Client{Timeout: 5 * time.Minute}).Get(what)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		return 1
	}
	return 0
}

// callGRPC runs the cases of gRPC's interop client; one that fails ends the process.
func callGRPC(host string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(host, grpc.WithTransportCredentials(credentials.NewTLS(nil)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer conn.Close()
	tc := testgrpc.NewTestServiceClient(conn)
	for _, do := range []func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
		interop.DoEmptyUnaryCall, interop.DoLargeUnaryCall, interop.DoClientStreaming, interop.DoServerStreaming, interop.DoPingPong,
		interop.DoEmptyStream, interop.DoTimeoutOnSleepingServer, interop.DoCancelAfterFirstResponse,
		interop.DoCustomMetadata, interop.DoStatusCodeAndMessage, interop.DoSpecialStatusMessage,
	} {
		do(ctx, tc)
	}
	interop.DoUnimplementedMethod(ctx, conn)
	fmt.Print("12 cases")
	return 0
}

// asProgram copies this binary into the project.
func (w *world) asProgram() string {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.project, "client")
	write(w.t, path, read(w.t, exe), 0o755)
	return path
}

// A client of Go's, which has its authorities from the system.
func TestReadByGo(t *testing.T) {
	w := newWorld(t)
	readable(w)
	w.args = []string{"-e", clientKey + "=https://" + readHost + "/repos/acme/x"}
	if res := w.must(w.asProgram()); res.stdout != "GET /repos/acme/x 0" {
		t.Errorf("got %q; stderr: %s", res.stdout, res.stderr)
	}
	if len(w.requests(200)) != 1 {
		t.Errorf("the record:\n%s", w.journal())
	}
}

// gRPC's own client inside, call by call.
func TestReadByGRPC(t *testing.T) {
	w := newWorld(t)
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	w.net.handle("grpc.example.com", s)
	w.rules = map[string][]string{"grpc.example.com": {`{domain: grpc.example.com, methods: [POST], paths: ["/grpc.testing.TestService/*"]}`}}
	w.args = []string{"-e", clientKey + "=grpc:grpc.example.com:443"}
	if res := w.must(w.asProgram()); res.stdout != "12 cases" {
		t.Errorf("got %q; stderr: %s", res.stdout, res.stderr)
	}
	if n := len(w.requests(200)); n < 10 { // some are cancelled
		t.Errorf("%d requests of the record:\n%s", n, w.journal())
	}
}

// Package managers fetch through connections that are read, and cannot publish.
func TestReadByPackageManagers(t *testing.T) {
	t.Run("npm", func(t *testing.T) {
		w := newWorld(t)
		need(t, "node", "npm")
		w.net.handle(npmHost, npmRegistry(t))
		w.rules = map[string][]string{npmHost: {`{domain: ` + npmHost + `, methods: [GET, HEAD]}`}}
		w.write(w.project, "package.json", shoutManifest)
		w.args = []string{"-e", "npm_config_registry=https://" + npmHost + "/", "-e", "npm_config_audit=false"}
		if res := w.script("npm install --foreground-scripts && npm run --silent shout"); !strings.Contains(res.stdout, "HELLO!") {
			t.Errorf("npm said %q", res.stdout)
		}
		if n := len(w.requests(200)); n < 6 {
			t.Errorf("%d requests of the record:\n%s", n, w.journal())
		}
		w.args = append(w.args, "-e", "npm_config_//"+npmHost+"/:_authToken=x")
		if res := w.run("npm", "publish"); res.status == 0 || !strings.Contains(res.stdout+res.stderr, "403") {
			t.Errorf("npm publish: %d %s", res.status, res.stderr)
		}
	})
	t.Run("go", func(t *testing.T) {
		w := newWorld(t)
		goProgram := need(t, "go", "go")
		w.env["PATH"] = filepath.Dir(goProgram) + ":" + w.env["PATH"]
		s := &static{}
		goModule(t, s, "example.org/words", "v0.3.1", map[string]string{"go.mod": "module example.org/words\n\ngo 1.21\n", "words.go": "package words\n"})
		w.net.handle(goHost, s)
		w.rules = map[string][]string{goHost: {`{domain: ` + goHost + `, methods: [GET], paths: ["/example.org/**"]}`}}
		w.write(w.project, "go.mod", "module example.org/app\n\ngo 1.21\n")
		w.args = []string{"-e", "GOPROXY=https://" + goHost, "-e", "GONOSUMDB=*", "-e", "GOTOOLCHAIN=local"}
		w.script("go get example.org/words@latest && grep -q 'words v0.3.1' go.mod go.sum")
		if res := w.run("go", "get", "other.example/x@latest"); res.status == 0 || !strings.Contains(res.stderr, "403 Forbidden") {
			t.Errorf("another module: %d %s", res.status, res.stderr)
		}
	})
	t.Run("pip", func(t *testing.T) {
		w := newWorld(t)
		need(t, "pip", "/usr/bin/pip3")
		w.net.handle(pyHost, pyIndex(t))
		w.rules = map[string][]string{pyHost: {`{domain: ` + pyHost + `, methods: [GET], paths: ["/simple/**", "/files/**"]}`}}
		w.script("python3 -m pip install --disable-pip-version-check --quiet --target lib --index-url https://" + pyHost + "/simple/ shouter && PYTHONPATH=lib python3 -c 'import shouter; assert shouter.shout(\"a\") == \"A!\"'")
	})
}
