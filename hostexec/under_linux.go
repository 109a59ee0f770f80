package hostexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// A Leash holds a program of the host that runs for long, with everything that it
// starts: none of it is ever an orphan whose parent no one knows, and all of it ends
// with the Leash, or with this process.
type Leash struct {
	job                  job
	orders, answers, dir *os.File // the helper's ends
	control, report      *os.File
	end                  func()
	once                 sync.Once
}

// Under is a command as the helper runs it, which serves Keep. Its pipes are the
// caller's to set; Started is called when it has started, End to end it, and Close
// when it has been waited for.
func Under(ctx context.Context, helper []string, c *exec.Cmd) (*exec.Cmd, *Leash, error) {
	l := &Leash{job: job{Path: c.Path, Env: c.Env}}
	for _, a := range c.Args {
		l.job.Argv = append(l.job.Argv, []byte(a))
	}
	var pipes pipes
	l.orders, l.control = pipes.make()
	l.report, l.answers = pipes.make()
	err := pipes.err
	if err == nil {
		l.dir, err = os.Open(c.Dir)
	}
	if err != nil {
		pipes.close()
		return nil, nil, fmt.Errorf("hold a host program: %w", err)
	}
	l.end = sync.OnceFunc(func() { l.control.Close() })
	kept := exec.CommandContext(context.WithoutCancel(ctx), helper[0], helper[1:]...) // it ends with the Leash
	kept.Args[0] = "cloister"
	kept.ExtraFiles = []*os.File{l.orders, l.answers, l.dir}
	kept.Env, kept.Dir = []string{}, "/" // nothing of the guardian's
	return kept, l, nil
}

// Started hands the program over. After an error the helper starts nothing.
func (l *Leash) Started() error {
	l.helpers()
	o := &orderly{w: l.control}
	if err := o.send(l.job); err != nil {
		l.end()
		return fmt.Errorf("hold a host program: %w", err)
	}
	return nil
}

func (l *Leash) helpers() {
	l.once.Do(func() {
		for _, f := range []*os.File{l.orders, l.answers, l.dir} {
			f.Close()
		}
	})
}

// End ends the program with all that it has started.
func (l *Leash) End() { l.end() }

// Close lets go, and tells how it ended where the helper could say so.
func (l *Leash) Close() error {
	l.helpers()
	l.end()
	defer l.report.Close()
	var last ended
	switch err := json.NewDecoder(l.report).Decode(&last); {
	case err != nil:
		return errors.New("its helper died")
	case last.Error != "":
		return errors.New(last.Error)
	case last.Status != 0:
		return fmt.Errorf("status %d", last.Status)
	}
	return nil
}
