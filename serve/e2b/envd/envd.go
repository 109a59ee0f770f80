// Package envd answers calls for one sandbox's files and processes, as E2B's daemon of that name does.
//
// The promise: a call does what the sandbox's own payload could do, and no more: one user, its files by a program
// that runs inside, its processes in its enclosure.
//
// It does not find out whose request it is, and counts none: serve/e2b does, before it hands a request on.
//
// Most readers want [Service.Serve].
package envd

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"

	"cloister/sandbox"
	"cloister/serve"
	"cloister/serve/connect"
	"cloister/serve/e2b/answer"
	"cloister/serve/files"
)

type sandboxKey struct{}

func withSandbox(ctx context.Context, s *serve.Sandbox) context.Context {
	return context.WithValue(ctx, sandboxKey{}, s)
}

func sandboxOf(ctx context.Context) *serve.Sandbox {
	s, _ := ctx.Value(sandboxKey{}).(*serve.Sandbox)
	return s
}

// Service answers the calls for all sandboxes.
type Service struct {
	log      *slog.Logger
	calls    *http.ServeMux
	watchers watchers
}

// New makes a service.
func New(log *slog.Logger) *Service {
	d := &Service{log: log, calls: http.NewServeMux()}
	d.list()
	return d
}

// Close ends the watchers that clients left.
func (d *Service) Close() { d.watchers.close() }

// Serve answers a request for a sandbox.
func (d *Service) Serve(w http.ResponseWriter, r *http.Request, s *serve.Sandbox) {
	d.calls.ServeHTTP(w, r.WithContext(withSandbox(r.Context(), s)))
}

// list lists the calls for one sandbox's files and processes. What E2B's daemon has for
// its orchestrator alone is not among them.
func (d *Service) list() {
	for name, h := range map[string]http.Handler{
		"/process.Process/List":                   connect.Unary(d.processList),
		"/process.Process/Start":                  connect.Stream(d.processStart),
		"/process.Process/Connect":                connect.Stream(d.processConnect),
		"/process.Process/Update":                 connect.Unary(d.processUpdate),
		"/process.Process/SendInput":              connect.Unary(d.processInput),
		"/process.Process/StreamInput":            connect.Stream(d.processStreamInput),
		"/process.Process/SendSignal":             connect.Unary(d.processSignal),
		"/process.Process/CloseStdin":             connect.Unary(d.processCloseStdin),
		"/filesystem.Filesystem/Stat":             connect.Unary(d.fileStat),
		"/filesystem.Filesystem/MakeDir":          connect.Unary(d.fileMakeDir),
		"/filesystem.Filesystem/Move":             connect.Unary(d.fileMove),
		"/filesystem.Filesystem/ListDir":          connect.Unary(d.fileList),
		"/filesystem.Filesystem/Remove":           connect.Unary(d.fileRemove),
		"/filesystem.Filesystem/WatchDir":         connect.Stream(d.fileWatch),
		"/filesystem.Filesystem/CreateWatcher":    connect.Unary(d.watcherCreate),
		"/filesystem.Filesystem/GetWatcherEvents": connect.Unary(d.watcherEvents),
		"/filesystem.Filesystem/RemoveWatcher":    connect.Unary(d.watcherRemove),
	} {
		d.calls.Handle(name, h)
	}
	d.calls.HandleFunc("GET /files", d.download)
	d.calls.HandleFunc("POST /files", d.upload)
	d.calls.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer.Fail(w, answer.Error(http.StatusNotFound, "a sandbox has no "+r.Method+" "+answer.Clip(r.URL.Path)))
	})
}

// users are the names by which a client may ask for the one user that a sandbox has. The
// SDKs ask for root by name; nothing gives more than the payload's own rights.
var users = []string{"", serve.User, "root"}

// checkUser refuses a call for a user that the sandbox does not have.
func checkUser(r *http.Request) error {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Basic ")
	if !ok {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	name, _, _ := strings.Cut(string(raw), ":")
	if err != nil {
		return connect.Errorf(connect.Unauthenticated, "the Authorization header is not as it should be")
	}
	return knownUser(name)
}

func knownUser(name string) error {
	if slices.Contains(users, name) {
		return nil
	}
	return connect.Errorf(connect.Unauthenticated, "user %q does not exist in the sandbox", answer.Clip(name))
}

// resolve makes a client's path absolute, as E2B does: relative to the home.
func resolve(p string) string {
	switch {
	case p == "~" || p == "":
		return serve.Home
	case strings.HasPrefix(p, "~/"):
		return path.Join(serve.Home, p[2:])
	case !strings.HasPrefix(p, "/"):
		return path.Join(serve.Home, p)
	}
	return path.Clean(p)
}

// rpcError gives an error its code of the Connect protocol.
func (d *Service) rpcError(err error) error {
	var (
		own      *connect.Error
		file     *files.Error
		bad      *serve.BadRequest
		over     *serve.Over
		stopped  *serve.NotRunning
		notFound *sandbox.ExecError
	)
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.As(err, &file):
		return connect.Errorf(fileCode(file.Code), "%s", file.Message)
	case errors.As(err, &bad):
		return connect.Errorf(connect.InvalidArgument, "%s", bad.What)
	case errors.As(err, &over):
		return connect.Errorf(connect.ResourceExhausted, "%s", over.What)
	case errors.As(err, &stopped):
		return connect.Errorf(connect.Unavailable, "%s", stopped.Error())
	case errors.As(err, &notFound):
		return connect.Errorf(connect.InvalidArgument, "%s", notFound.Error())
	case errors.Is(err, serve.ErrNoProcess):
		return connect.Errorf(connect.NotFound, "process not found")
	case errors.Is(err, serve.ErrNoInput):
		return connect.Errorf(connect.FailedPrecondition, "%s", err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, connect.ErrAbort):
		return err
	}
	d.log.Error("answer a call", "error", err)
	return connect.Errorf(connect.Internal, answer.Hidden)
}

func fileCode(c files.Code) connect.Code {
	switch c {
	case files.NotFound:
		return connect.NotFound
	case files.Exists:
		return connect.AlreadyExists
	case files.Invalid:
		return connect.InvalidArgument
	case files.Denied:
		return connect.PermissionDenied
	case files.Full, files.TooMuch:
		return connect.ResourceExhausted
	case files.Failed:
	}
	return connect.Internal
}
