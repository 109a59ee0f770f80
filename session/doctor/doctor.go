// Package doctor finds out what this machine can guarantee: what its kernel offers, whether
// Cloister's folders, configuration and guardian are in order, and what each level of
// isolation promises here.
//
// The promise: a fact that is missing is reported with what would mend it, and looking
// changes nothing: no folder is made, and no guardian is started.
//
// It prints nothing and mends nothing.
//
// Most readers want [Options.Examine].
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/api/client"
	"cloister/host/kernel"
	"cloister/internal/xdg"
	"cloister/sandbox"
)

// Diagnosis is the answer of doctor; its names are the contract's.
type Diagnosis struct {
	OK        bool        `json:"ok"`
	Checks    []Check     `json:"checks"`
	Isolation []Isolation `json:"isolation"`
}

// A Check is one fact about this machine, with what would mend it.
type Check struct {
	ID     string        `json:"id"`
	Title  string        `json:"title"`
	Status kernel.Status `json:"status"`
	Detail string        `json:"detail"`
	Fix    string        `json:"fix"`
}

// An Isolation is one level of isolation, with what it can guarantee here.
type Isolation struct {
	Name       string      `json:"name"`
	Available  bool        `json:"available"`
	Reason     string      `json:"reason"`
	Guarantees []Guarantee `json:"guarantees"`
}

// A Guarantee is one promise of a level.
type Guarantee struct {
	Name     string `json:"name"`
	Level    string `json:"level"`
	By       string `json:"by"`
	Evidence string `json:"evidence"`
	Fix      string `json:"-"`
}

// A Level is a level of isolation, and how its driver is made.
type Level struct {
	Name string
	Make func() (sandbox.Driver, error)
}

// Options are what is examined, as the command line knows it.
type Options struct {
	// Dirs are the folders of this instance.
	Dirs func() (xdg.Dirs, error)
	// Socket is where the guardian of those folders answers.
	Socket func(xdg.Dirs) string
	// Policy is the policy that the next guardian would load, by its digest.
	Policy func() (digest string, notices []string, err error)
	Levels []Level
	// Version is this program's.
	Version string
	// Hints are what an error advises.
	Hints func(error) []string
}

// Examine looks at this machine.
func (o Options) Examine(ctx context.Context) Diagnosis {
	d := Diagnosis{OK: true, Checks: []Check{}, Isolation: []Isolation{}}
	for _, k := range kernel.Checks(kernel.ThisHost()) {
		d.Checks = append(d.Checks, Check(k))
	}
	dirs, err := o.Dirs()
	if err != nil {
		d.Checks = append(d.Checks, Check{"folders", "Folders", kernel.Fail, err.Error(), strings.Join(o.Hints(err), "; ")})
	} else {
		d.Checks = append(d.Checks, checkFolders(dirs)...)
		d.Checks = append(d.Checks, o.checkConfig(), o.checkGuardian(ctx, o.Socket(dirs)))
	}
	d.Checks = append(d.Checks, checkHostCommands())
	available := false
	for _, l := range o.Levels {
		i := Isolation{Name: l.Name, Guarantees: []Guarantee{}}
		if driver, err := l.Make(); err != nil {
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
func (d *Diagnosis) excuse(level string) {
	there := slices.ContainsFunc(d.Isolation, func(i Isolation) bool { return i.Name == level && i.Available })
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

func probed(r sandbox.Report) Isolation {
	i := Isolation{Name: r.Driver, Available: len(r.Missing()) == 0, Reason: r.Reason(), Guarantees: []Guarantee{}}
	for _, g := range r.Guarantees {
		i.Guarantees = append(i.Guarantees, Guarantee{g.Name, g.Level.String(), g.By, g.Evidence, g.Fix})
	}
	return i
}

func (o Options) checkConfig() Check {
	c := Check{ID: "config", Title: "Configuration and policy", Status: kernel.OK}
	digest, notices, err := o.Policy()
	if err != nil {
		c.Status, c.Detail = kernel.Fail, strings.ReplaceAll(err.Error(), "\n", "; ")
		c.Fix = strings.Join(o.Hints(err), "; ")
		return c
	}
	c.Detail = "policy " + digest
	if len(notices) > 0 {
		c.Status, c.Detail = kernel.Warn, strings.Join(notices, "; ")
	}
	return c
}

func (o Options) checkGuardian(ctx context.Context, socket string) Check {
	c := Check{ID: "guardian", Title: "Guardian", Status: kernel.OK, Detail: "not running; the first run starts it"}
	conn, err := client.Dial(ctx, socket)
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
	case s.Version != o.Version:
		c.Status, c.Detail = kernel.Warn, fmt.Sprintf("pid %d is version %s, this is %s", s.PID, s.Version, o.Version)
		c.Fix = "cloister guardian stop; the next run starts the new one"
	default:
		c.Detail = "pid " + strconv.Itoa(s.PID) + ", " + strconv.Itoa(s.Sessions) + " sessions"
	}
	return c
}
