package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Bounds of one sweep: pods that are asked for at once, and in all, and deletions of one call.
const (
	pageOf  = 500
	pagesOf = 400
	batchOf = 100
	// sweepWithin bounds the whole: everything else that is left on this host waits for it.
	sweepWithin = 10 * time.Minute
)

// Leftovers deletes the pods of this instance whose sessions are over: what a shim that was
// killed left. Without its shim the gate of such a pod has ended, and the agent with it.
func (d *Driver) Leftovers(ctx context.Context, live []string) error {
	ctx, stop := context.WithTimeout(ctx, sweepWithin)
	defer stop()
	lives := map[string]bool{}
	for _, id := range live {
		lives[strings.ToLower(id)] = true
	}
	over, by, err := d.over(ctx, lives)
	if err != nil {
		return fmt.Errorf("list the cluster's pods: %w", err)
	}
	over, err = d.unheld(over)
	if err != nil {
		return err
	}
	for names := range slices.Chunk(over, batchOf) {
		one := by.remove(ctx, names, "--ignore-not-found", "--wait=false", "--grace-period=1", "--request-timeout=20s")
		err = errors.Join(err, one)
		if reason := reasonOf(one); one != nil && (reason == "" || slices.Contains(passing, reason)) {
			return err // of the server; a pod that it refuses to delete holds no other
		}
	}
	return err
}

// hold locks a pod's folder, before there is the pod. The lock ends with this process.
func hold(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// unheld leaves out the pods that a process of this host has: sessions that began after it was asked
// which ones live. What a process that was killed left of its folder is removed.
func (d *Driver) unheld(names []string) ([]string, error) {
	list, err := os.ReadDir(d.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		at := slices.Index(names, prefix+strings.ToLower(e.Name()))
		if at < 0 {
			continue
		}
		dir := filepath.Join(d.o.Dir, e.Name())
		f, err := hold(dir)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			names = slices.Delete(names, at, at+1)
		case errors.Is(err, fs.ErrNotExist): // it has just ended
		case err != nil:
			return nil, err
		default:
			if err := errors.Join(os.RemoveAll(dir), f.Close()); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// over names the pods of this instance whose sessions are none of these, and the Sandboxes, with who ends them. Those
// are looked for also where this program makes the pods, since it may be so for a short time only: a cluster that has
// none, or does not let them be listed, has none of this instance's.
func (d *Driver) over(ctx context.Context, lives map[string]bool) (names []string, by maker, err error) {
	if names, err = d.overOf(ctx, "/api/v1/namespaces/"+d.o.Level.Namespace+"/pods", lives); err != nil {
		return nil, nil, err
	}
	by = d.maker()
	more, err := d.overOf(ctx, "/apis/"+sandboxVersion+"/namespaces/"+d.o.Level.Namespace+"/sandboxes", lives)
	switch {
	case d.o.Level.Maker != MakerSandbox && slices.Contains([]string{"NotFound", "Forbidden"}, reasonOf(err)):
	case err != nil:
		return nil, nil, err
	case len(more) > 0:
		names, by = append(names, more...), sandboxes{d}
	}
	slices.Sort(names)
	return slices.Compact(names), by, nil
}

// overOf reads a list by pages, so that many cost no memory, and begins anew where the cluster has forgotten
// which page it was.
func (d *Driver) overOf(ctx context.Context, path string, lives map[string]bool) (names []string, err error) {
	next, busy, pause := "", 0, firstPause
	for range pagesOf {
		page, err := d.page(ctx, path, next)
		switch reason := reasonOf(err); {
		case reason == "Expired" || reason == "Gone":
			next, names = "", nil
			fallthrough // one that has forgotten each page has no end else
		case slices.Contains(passing, reason) && busy < tries:
			if err := wait(ctx, pause); err != nil {
				return nil, err
			}
			busy, pause = busy+1, 2*pause
			continue
		case err != nil:
			return nil, err
		}
		for _, p := range page.Items {
			m := p.Metadata
			of := m.Labels[labelSession]
			// Names are words of a command, and a server may answer with others than were asked for.
			ours := m.Labels[labelInstance] == d.o.Level.Instance && m.Name == prefix+of && label().MatchString(m.Name)
			if ours && !lives[of] {
				names = append(names, m.Name)
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return names, nil
		}
	}
	return names, nil // the next sweep has the rest
}

// list is a page of pods.
type list struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []struct {
		Metadata struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	} `json:"items"`
}

func (d *Driver) page(ctx context.Context, path, next string) (l list, err error) {
	q := url.Values{"labelSelector": {labelInstance + "=" + d.o.Level.Instance}, "limit": {strconv.Itoa(pageOf)}}
	if next != "" {
		q.Set("continue", next)
	}
	text, err := d.call(ctx, nil, "get", "--request-timeout=20s", "--raw="+path+"?"+q.Encode())
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(text, &l)
}

// Probe says what a pod is held by; whether the cluster obeys each start finds out.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	add := func(name, by string, err error, fix string) {
		g := sandbox.Guarantee{Name: name, By: by, Level: sandbox.Enforced, Needed: true, Evidence: "pods may be made there"}
		if err != nil {
			g.Level, g.Evidence, g.Fix = sandbox.Absent, err.Error(), fix
		}
		r.Guarantees = append(r.Guarantees, g)
	}
	of := "pods"
	if d.o.Level.Maker == MakerSandbox {
		of = sandboxNames
	}
	_, err := d.call(ctx, nil, "auth", "can-i", "create", of, "--quiet", "--request-timeout=5s")
	add("enclosure", "pods of the namespace "+d.o.Level.Namespace, err,
		"apply what this prints: cloister setup kubernetes --manifests")
	return r
}
