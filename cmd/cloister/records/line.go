package records

import (
	"fmt"
	"time"

	"cloister/audit"
	"cloister/cmd/cloister/cli"
)

// eventLine is one event for a person: when, who, what, and why.
func eventLine(e audit.Event, withSession bool) string {
	s := e.Time.Local().Format(time.TimeOnly)
	if withSession {
		s += fmt.Sprintf("  %-16s", cli.OrDash(e.Session))
	}
	s += fmt.Sprintf("  %-5s  %-20s", e.Verdict, e.Kind)
	switch {
	case e.Kind == audit.MCPCall:
		s += "  " + e.Action + " " + e.Resource
	case e.Host != "" && e.Port != 0:
		s += fmt.Sprintf("  %s:%d", e.Host, e.Port)
	case e.Host != "":
		s += "  " + e.Host
	case e.Resource != "":
		s += "  " + e.Resource
	}
	if e.Method != "" {
		s += fmt.Sprintf("  %s %s", e.Method, e.Path)
	}
	if e.BytesUp != nil && e.BytesDown != nil && *e.BytesUp+*e.BytesDown > 0 {
		s += fmt.Sprintf("  %d up, %d down", *e.BytesUp, *e.BytesDown)
	}
	if e.ExitStatus != nil {
		s += fmt.Sprintf("  status %d", *e.ExitStatus)
	}
	if e.Rule != "" {
		s += "  [" + e.Rule + "]"
	}
	if e.Reason != "" {
		s += "  " + e.Reason
	}
	return s
}
