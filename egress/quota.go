package egress

import (
	"cloister/egress/internal/quota"
)

// A Quota bounds what one session may do, whatever rules allow.
type Quota = quota.Bounds

// Usage is what a session has used.
type Usage = quota.Usage

// SetQuota puts q in the place of the Quota that was. What was counted stays.
func (e *Engine) SetQuota(q Quota) { e.session.Quota.Set(q) }

// Quota is the one in force.
func (e *Engine) Quota() Quota { return e.session.Quota.Bounds() }

// Usage tells what the session has used so far.
func (e *Engine) Usage() Usage { return e.session.Quota.Usage() }
