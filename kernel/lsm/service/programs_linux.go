package service

import (
	"errors"
	"os"
	"sync"
	"time"

	"cloister/kernel/lsm"
)

// idle is how long programs stay loaded without a session. They cost every open of the host a look
// at two maps; to load them takes the kernel a second, which no peer is to have it do all the time.
const idle = 10 * time.Minute

// programs are those of the kernel, loaded for the first session and joined where another process
// loaded them.
type programs struct {
	mu       sync.Mutex
	k        *lsm.Kernel
	sessions int
	rest     *time.Timer
}

// counted is a session that notes when it is over.
type counted struct {
	*lsm.Attached
	of *programs
}

// load loads the programs, if they are not, and has them go if no session begins.
func (p *programs) load() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded()
}

func (p *programs) loaded() error {
	if p.k != nil {
		return nil
	}
	k, err := lsm.Open()
	if err != nil {
		return err
	}
	p.k = k
	p.later()
	return nil
}

// later has the programs go where no session comes.
func (p *programs) later() {
	if p.rest != nil {
		p.rest.Stop()
	}
	p.rest = time.AfterFunc(idle, func() { _ = p.unload() }) // what stays pinned the next one joins
}

// unload lets go of the programs where no session needs them.
func (p *programs) unload() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.k == nil || p.sessions > 0 {
		return nil
	}
	p.rest.Stop()
	k := p.k
	p.k = nil
	return k.Close()
}

// Attach makes a user's control group a session.
func (p *programs) Attach(group *os.File, user uint32) (lsm.Backend, error) {
	if user == 0 {
		return nil, errors.New("root loads the programs itself")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loaded(); err != nil {
		return nil, err
	}
	a, err := p.k.Attach(group, user)
	if err != nil {
		return nil, err
	}
	p.sessions++
	return counted{a, p}, nil
}

// Close ends the session.
func (c counted) Close() error {
	err := c.Attached.Close()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.sessions--; c.of.sessions == 0 {
		c.of.later()
	}
	return err
}
