package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/audit"
	"cloister/guardian"
	"cloister/host/resolve"
	"cloister/internal/passfd"
	"cloister/internal/xdg"
)

// LogFile is where the guardian of this instance writes for the operator.
func LogFile(d xdg.Dirs) string { return filepath.Join(d.State, "logs", "guardian.log") }

// readyFD is the descriptor on which a spawned guardian says one guardianWord.
const readyFD = 3

// startReport tells whoever spawned a guardian that it answers, or why it did
// not start.
type startReport struct {
	Ready  bool          `json:"ready,omitempty"`
	Taken  bool          `json:"taken,omitempty"` // another guardian has the instance
	Errors []remoteError `json:"errors,omitempty"`
}

// remoteError is one error of another process, with its hints. It is not an error
// of the words that this one was called with, whatever it was there.
type remoteError struct {
	Text  string   `json:"text"`
	Words []string `json:"hints,omitempty"`
}

func (e *remoteError) Error() string { return e.Text }

func (e *remoteError) Hints() []string { return e.Words }

// takenError says that another guardian has the instance: it is on its way in,
// or out.
type takenError struct{ err error }

func (e *takenError) Error() string { return e.err.Error() }

func (e *takenError) Unwrap() error { return e.err }

// ReportOf says an error for another process.
func ReportOf(err error) startReport {
	w := startReport{Ready: err == nil, Taken: errors.Is(err, guardian.ErrAlreadyRunning) ||
		errors.Is(err, audit.ErrInUse)}
	if err != nil {
		for _, e := range apart(err) {
			hints := HintsOf(e)
			if len(hints) == 0 {
				hints = folderHints(e)
			}
			w.Errors = append(w.Errors, remoteError{e.Error(), hints})
		}
	}
	return w
}

// Err is what the word says, as an error of this process.
func (w startReport) Err() error {
	var errs []error
	for i := range w.Errors {
		errs = append(errs, &w.Errors[i])
	}
	err := errors.Join(errs...)
	if w.Taken && err != nil {
		err = &takenError{err}
	}
	return err
}

// spawnGuardian starts a guardian that outlives this process, and returns when
// it answers or has said why not.
func (a *App) spawnGuardian(d xdg.Dirs) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the guardian: find this program: %w", err)
	}
	host, err := a.Resolver(d)
	if err != nil {
		return err
	}
	log, err := openLog(LogFile(d))
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	defer null.Close()
	ready, report, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	defer ready.Close()
	args := []string{"cloister", "guardian", "daemon", "--ready-fd", strconv.Itoa(readyFD)}
	if a.Debug {
		args = append(args, "--debug")
	}
	passfd.Private()
	p, err := os.StartProcess(exe, args, &os.ProcAttr{
		Dir:   "/", // hold no folder that a person may want to unmount
		Env:   a.DaemonEnvironment(host),
		Files: []*os.File{null, log, log, report},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	report.Close()
	if err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	// The guardian is no one's child for long: this process may live for days
	// as a shim, and must not keep it as a zombie.
	go func() { _, _ = p.Wait() }()
	if err := ready.SetReadDeadline(time.Now().Add(Patience)); err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	var word startReport
	err = json.NewDecoder(io.LimitReader(ready, 64<<10)).Decode(&word)
	switch {
	case word.Ready:
		return nil
	case len(word.Errors) > 0:
		return word.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Hinted(fmt.Errorf("it does not answer within %s", Patience), "its log: "+LogFile(d))
	}
	return Hinted(errors.New("it ended at once"), "its log: "+LogFile(d))
}

// DaemonEnvironment is what a guardian needs. The person's tokens are not
// among it, so they are not in its memory either, and nothing names a file of authorities
// that a payload could write.
func (a *App) DaemonEnvironment(host *resolve.Resolver) []string {
	var out []string
	for _, key := range []string{
		"HOME", "PATH", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK",
	} {
		if v, ok := a.Env[key]; ok {
			out = append(out, key+"="+v)
		}
	}
	return host.Settled(out, "SSL_CERT_FILE", "SSL_CERT_DIR")
}

// maxLog is where a log is put aside, at a guardian's start.
const maxLog = 8 << 20

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open the guardian's log: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("put the guardian's log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the guardian's log: %w", err)
	}
	return f, nil
}

// StopGuardian ends the guardian that runs and waits for its last record, if may has nothing
// against it; running is false where there is none.
func (a *App) StopGuardian(ctx context.Context, why string, may func(api.Status) error) (running bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	c, err := a.Dial(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err == nil {
		err = may(s)
	}
	if err != nil {
		return true, err
	}
	return true, EndGuardian(ctx, c, s, why)
}

// EndGuardian asks a guardian to stop and waits until its process has ended: until
// then it holds the instance, and may still write its last record.
func EndGuardian(ctx context.Context, c *client.Client, s api.Status, why string) error {
	ended, err := WatchEnd(s.PID)
	if err == nil {
		err = c.Stop(ctx, why)
	}
	if err == nil {
		err = ended(ctx)
	}
	if err != nil {
		return fmt.Errorf("stop the guardian: %w", err)
	}
	return nil
}
