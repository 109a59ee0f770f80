package gvisor

import (
	"bufio"
	"fmt"
	"iter"
	"os"
	"sync"
)

// reports are what is reported on the way of a command: by the kernel's program outside, and
// by the first program of the process inside.
//
// A first process tells both on one pipe, and that the command runs. One that joins
// becomes the command: its own pipe ends then, as an execution closes it.
type reports struct {
	outside, inside *os.File // the ends that are handed on
	hear            []*os.File
	joins           bool
}

func newReports(mode string) (*reports, error) {
	r := &reports{joins: mode == modeJoin}
	hear, tell, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start gvisor: %w", err)
	}
	r.hear, r.outside, r.inside = []*os.File{hear}, tell, tell
	if !r.joins {
		return r, nil
	}
	if hear, tell, err = os.Pipe(); err != nil {
		r.given()
		r.close()
		return nil, fmt.Errorf("start gvisor: %w", err)
	}
	r.hear, r.inside = append(r.hear, hear), tell
	return r, nil
}

// given closes what others have by now.
func (r *reports) given() {
	r.outside.Close()
	if r.inside != r.outside {
		r.inside.Close()
	}
}

func (r *reports) close() {
	for _, f := range r.hear {
		f.Close()
	}
}

// lines are the reports as they come, until everybody who could report is gone. The
// word of the kernel that a process is made, and the end of that process's own pipe
// without a word, are together the report that its command runs.
func (r *reports) lines() iter.Seq[string] {
	said, stop := make(chan string), make(chan struct{})
	made := make(chan struct{})
	make1 := sync.OnceFunc(func() { close(made) })
	var readers sync.WaitGroup
	send := func(line string) bool {
		select {
		case said <- line:
			return true
		case <-stop:
			return false
		}
	}
	readers.Go(func() {
		defer make1()
		for in := bufio.NewScanner(r.hear[0]); in.Scan(); {
			if in.Text() == "made" {
				make1()
				continue
			}
			if !send(in.Text()) {
				return
			}
		}
	})
	if r.joins {
		readers.Go(func() {
			in := bufio.NewScanner(r.hear[1])
			if in.Scan() {
				send(in.Text())
				return
			}
			<-made
			send("started")
		})
	}
	go func() {
		readers.Wait()
		close(said)
	}()
	return func(yield func(string) bool) {
		defer close(stop)
		for line := range said {
			if !yield(line) {
				return
			}
		}
	}
}
