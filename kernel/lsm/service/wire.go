package service

import (
	"errors"
	"fmt"

	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/kernel/lsm"
)

const (
	// maxLine bounds a message of a peer, and maxSaid one of the service: an event of the kernel's
	// has some 1,900 bytes.
	maxLine = 8 << 10
	maxSaid = 8 << 10
	// together are the objects of one message.
	together = passfd.MaxFiles
	// maxObjects bounds those of one policy, with the folders above what it forbids.
	maxObjects = 40_000
)

// Object is what a policy says of a file, whose descriptor goes with the message.
type Object struct {
	Key    uint64 `json:"key"` // the peer's name of it, in events
	Permit uint32 `json:"permit,omitempty"`
	Forbid uint32 `json:"forbid,omitempty"`
	Held   bool   `json:"held,omitempty"`
}

// Swap puts the objects that were sent since the one before in force.
type Swap struct {
	None    bool   `json:"none,omitempty"` // nothing may be opened
	Objects int    `json:"objects"`        // so many were sent
	Permit  uint32 `json:"permit,omitempty"`
	Forbid  uint32 `json:"forbid,omitempty"`
	Flags   uint32 `json:"flags,omitempty"`
}

// Asked is one message of a peer: exactly one of them.
type Asked struct {
	Attach  bool     `json:"attach,omitempty"` // with the folder of a control group
	Objects []Object `json:"objects,omitempty"`
	Swap    *Swap    `json:"swap,omitempty"`
	Drain   bool     `json:"drain,omitempty"`
}

// Said is one message of the service.
type Said struct {
	Objects string      `json:"programs,omitempty"` // the version of its programs: the first message
	Done    bool        `json:"done,omitempty"`     // what was asked
	Refused string      `json:"refused,omitempty"`  // or why not
	Judged  bool        `json:"judged,omitempty"`   // the group was a session already
	Event   []byte      `json:"event,omitempty"`    // as the kernel wrote it, with the peer's key for its label
	Counts  *lsm.Counts `json:"counts,omitempty"`
	Drained bool        `json:"drained,omitempty"` // no more events come
}

// files are how many descriptors go with a message.
func (a *Asked) files() int {
	if a.Attach {
		return 1
	}
	return len(a.Objects)
}

// rights are the bits of all rights, and spoken those of the flags that name them.
const rights = uint32(lsm.All)

// decode reads a message and checks all that can be checked of it alone.
func decode(line []byte) (Asked, error) {
	var a Asked
	if err := exactjson.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("read a message: %w", err)
	}
	said := 0
	for _, one := range []bool{a.Attach, len(a.Objects) > 0, a.Swap != nil, a.Drain} {
		if one {
			said++
		}
	}
	if said != 1 {
		return a, errors.New("read a message: it is not one of attach, objects, swap and drain")
	}
	if len(a.Objects) > together {
		return a, fmt.Errorf("read a message: %d objects, at most %d go together", len(a.Objects), together)
	}
	for _, o := range a.Objects {
		if o.Key == 0 || (o.Permit|o.Forbid)&^rights != 0 {
			return a, errors.New("read a message: no object has such a key, or such rights")
		}
	}
	if s := a.Swap; s != nil {
		switch {
		case s.Objects < 0 || s.Objects > maxObjects:
			return a, fmt.Errorf("read a message: a policy of %d objects, at most %d", s.Objects, maxObjects)
		case s.None && *s != Swap{None: true}:
			return a, errors.New("read a message: no policy, with something in it")
		case (s.Permit|s.Forbid)&^rights != 0 || s.Flags&^lsm.BaseFlags != 0:
			return a, errors.New("read a message: no policy has such bits")
		}
	}
	return a, nil
}
