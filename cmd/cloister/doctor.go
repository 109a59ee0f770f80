package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/guardian/folders"
	"cloister/host/kernel"
	"cloister/hostexec"
	"cloister/internal/xdg"
	"cloister/sandbox"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// diagnosis is the answer of doctor; its names are the contract's.
type diagnosis struct {
	OK        bool        `json:"ok"`
	Checks    []check     `json:"checks"`
	Isolation []isolation `json:"isolation"`
}

type check struct {
	ID     string        `json:"id"`
	Title  string        `json:"title"`
	Status kernel.Status `json:"status"`
	Detail string        `json:"detail"`
	Fix    string        `json:"fix"`
}

type isolation struct {
	Name       string      `json:"name"`
	Available  bool        `json:"available"`
	Reason     string      `json:"reason"`
	Guarantees []guarantee `json:"guarantees"`
}

type guarantee struct {
	Name     string `json:"name"`
	Level    string `json:"level"`
	By       string `json:"by"`
	Evidence string `json:"evidence"`
	fix      string
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine can guarantee, and what would fix the rest",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := a.diagnose(cmd.Context())
			if asJSON {
				if err := a.JSON(d); err != nil {
					return err
				}
			} else {
				a.tellDiagnosis(d)
			}
			if !d.OK {
				return &cli.StatusError{Status: cli.StatusFailed}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) diagnose(ctx context.Context) diagnosis {
	d := diagnosis{OK: true, Checks: []check{}, Isolation: []isolation{}}
	for _, k := range kernel.Checks(kernel.ThisHost()) {
		d.Checks = append(d.Checks, check(k))
	}
	dirs, err := a.Dirs()
	if err != nil {
		d.Checks = append(d.Checks, check{"folders", "Folders", kernel.Fail, err.Error(),
			strings.Join(cli.HintsOf(err), "; ")})
	} else {
		d.Checks = append(d.Checks, a.folders(dirs)...)
		d.Checks = append(d.Checks, a.checkConfig(), a.checkGuardian(ctx, dirs))
	}
	d.Checks = append(d.Checks, checkHostCommands())
	available := false
	for _, c := range a.drivers() {
		i := isolation{Name: c.name, Guarantees: []guarantee{}}
		if driver, err := c.make(); err != nil {
			i.Reason = err.Error()
		} else {
			i = probed(driver.Probe(ctx))
		}
		available = available || i.Available
		d.Isolation = append(d.Isolation, i)
	}
	d.OK = available
	d.excuse(levelUser)
	for _, c := range d.Checks {
		d.OK = d.OK && c.Status != kernel.Fail
	}
	return d
}

// levelUser is the isolation that needs no user namespace.
const levelUser = "user"

// excuse has user namespaces that are missing fail nothing where a level does without. Where
// none does, it says how to get that one.
func (d *diagnosis) excuse(level string) {
	there := slices.ContainsFunc(d.Isolation, func(i isolation) bool { return i.Name == level && i.Available })
	for i := range d.Checks {
		c := &d.Checks[i]
		if c.Status != kernel.Fail || c.ID != "userns" && c.ID != "apparmor-userns" {
			continue
		}
		if there {
			c.Status, c.Detail = kernel.Warn, c.Detail+"; isolation "+level+" does without"
		} else {
			c.Fix += "; or leave it so, and have root's helper make namespaces: sudo cloister setup local-user"
		}
	}
}

func probed(r sandbox.Report) isolation {
	i := isolation{Name: r.Driver, Available: len(r.Missing()) == 0, Reason: r.Reason(), Guarantees: []guarantee{}}
	for _, g := range r.Guarantees {
		i.Guarantees = append(i.Guarantees, guarantee{g.Name, g.Level.String(), g.By, g.Evidence, g.Fix})
	}
	return i
}

// folders looks at the four folders, and makes none of them.
func (a *app) folders(d xdg.Dirs) []check {
	var out []check
	for _, f := range []struct {
		id, title, dir string
		private        bool
	}{
		{"config-dir", "Configuration folder", d.Config, false},
		{"state-dir", "State folder", d.State, false},
		{"data-dir", "Data folder", d.Data, false},
		{"runtime-dir", "Runtime folder", d.Runtime, true},
	} {
		c := check{ID: f.id, Title: f.title, Status: kernel.OK, Detail: f.dir}
		// Only reading is needed of the configuration.
		if problem, fix := a.checkFolder(f.dir, f.private, f.id != "config-dir"); problem != "" {
			c.Status, c.Detail, c.Fix = kernel.Fail, f.dir+": "+problem, fix
		} else if c.Status == kernel.OK && f.id == "state-dir" {
			c.Status, c.Detail, c.Fix = room(f.dir)
		}
		out = append(out, c)
	}
	return out
}

func (a *app) checkFolder(dir string, private, writable bool) (problem, fix string) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !writable {
			return "", "" // no configuration means the defaults
		}
		above := existing(dir)
		if err := unix.Access(above, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Sprintf("cannot be made in %s: %v", above, err), "make it, with mode 0700 and you as its owner"
		}
		return "", ""
	}
	if err != nil {
		return err.Error(), ""
	}
	if info.Mode()&fs.ModeSymlink != 0 && !private {
		if info, err = os.Stat(dir); err != nil {
			return err.Error(), ""
		}
	}
	need := uint32(unix.R_OK | unix.X_OK)
	if writable {
		need |= unix.W_OK
	}
	switch {
	case !info.IsDir():
		return "not a folder", "move it away"
	case private && info.Mode().Perm()&0o077 != 0:
		return fmt.Sprintf("open to others (mode %04o)", info.Mode().Perm()), "chmod 700 " + dir
	}
	if err := unix.Access(dir, need); err != nil {
		return err.Error(), "give yourself the right to it, or point its XDG variable to a folder that you may write"
	}
	return "", ""
}

// existing is the nearest folder above that is there.
func existing(dir string) string {
	for {
		above := filepath.Dir(dir)
		if _, err := os.Stat(above); err == nil || above == dir {
			return above
		}
		dir = above
	}
}

// room reports whether the audit has space to grow.
func room(dir string) (status kernel.Status, detail, fix string) {
	if _, err := os.Stat(dir); err != nil {
		dir = existing(dir)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return kernel.Warn, dir + ": free space unknown: " + err.Error(), ""
	}
	free := s.Bavail * uint64(s.Bsize) >> 20
	detail = fmt.Sprintf("%s, %d MiB free", dir, free)
	if free < 64 {
		return kernel.Fail, detail, "make room: what cannot be recorded is refused"
	}
	return kernel.OK, detail, ""
}

// checkHostCommands makes a control group as a host command gets, and removes it.
func checkHostCommands() check {
	c := check{ID: "host-commands", Title: "Limits of host commands", Status: kernel.OK,
		Detail: "a control group each: memory, processes, processor time, an end of all"}
	group, _, err := hostexec.NewGroup("host-cloister-probe-"+strconv.Itoa(os.Getpid()), hostexec.Limits{PIDs: 1})
	if err == nil {
		err = group.Close()
	}
	if err != nil {
		c.Status, c.Detail = kernel.Warn, "time and output are bounded, memory and processes are not: "+err.Error()
		c.Fix = "have the service manager delegate a cgroup to the guardian: systemd-run --user --scope -p Delegate=yes " +
			"cloister guardian start, or run as root"
	}
	return c
}

func (a *app) checkConfig() check {
	c := check{ID: "config", Title: "Configuration and policy", Status: kernel.OK}
	l, err := a.OnDisk()
	if err != nil {
		c.Status, c.Detail = kernel.Fail, strings.ReplaceAll(err.Error(), "\n", "; ")
		c.Fix = strings.Join(cli.HintsOf(err), "; ")
		return c
	}
	c.Detail = "policy " + l.Snapshot().Digest()
	if n := l.Notices(); len(n) > 0 {
		c.Status, c.Detail = kernel.Warn, strings.Join(n, "; ")
	}
	return c
}

func (a *app) checkGuardian(ctx context.Context, d xdg.Dirs) check {
	c := check{ID: "guardian", Title: "Guardian", Status: kernel.OK, Detail: "not running; the first run starts it"}
	conn, err := client.Dial(ctx, folders.Socket(d))
	if errors.Is(err, client.ErrNotRunning) {
		return c
	}
	if err != nil {
		c.Status, c.Detail = kernel.Fail, err.Error()
		return c
	}
	defer conn.Close()
	s, err := conn.Status(ctx)
	switch {
	case err != nil:
		c.Status, c.Detail, c.Fix = kernel.Fail, err.Error(), "cloister guardian stop"
	case s.AuditError != "":
		c.Status, c.Detail = kernel.Fail, "the audit cannot be written, everything is denied: "+s.AuditError
		c.Fix = "mend its folder, then cloister guardian stop; the next run starts a new one"
	case s.PolicyError != "":
		c.Status, c.Detail = kernel.Fail, "the last good policy is in force, not the one on disk: "+s.PolicyError
		c.Fix = "cloister policy check, then cloister guardian reload"
	case s.Version != cli.Version():
		c.Status, c.Detail = kernel.Warn, fmt.Sprintf("pid %d is version %s, this is %s", s.PID, s.Version, cli.Version())
		c.Fix = "cloister guardian stop; the next run starts the new one"
	default:
		c.Detail = "pid " + strconv.Itoa(s.PID) + ", " + strconv.Itoa(s.Sessions) + " sessions"
	}
	return c
}

func (a *app) tellDiagnosis(d diagnosis) {
	colours := map[string]int{"ok": cli.Green, "warn": cli.Yellow, "fail": cli.Red, "enforced": cli.Green,
		"partial": cli.Yellow,
		"absent":  cli.Red}
	tell := func(word, what, detail, fix string) {
		a.Out.WriteString(a.Paint(fmt.Sprintf("%-8s", word), colours[word]))
		a.Line("  %-34s  %s", what, detail)
		if fix != "" && word != "ok" && word != "enforced" {
			a.Line("%10sfix: %s", "", fix)
		}
	}
	for _, c := range d.Checks {
		tell(string(c.Status), c.Title, c.Detail, c.Fix)
	}
	for _, i := range d.Isolation {
		a.Line("")
		if i.Available {
			a.Line("isolation %s: available", i.Name)
		} else {
			a.Line("isolation %s: not available: %s", i.Name, i.Reason)
		}
		for _, g := range i.Guarantees {
			tell(g.Level, g.Name, g.By+"; "+g.Evidence, g.fix)
		}
	}
}
