package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"cloister/bench/facts"
)

// idle is what cloisters weigh: the guardian, and the processes of each.
type idle struct{ guardian, ours, payload float64 }

func (w *world) weigh(ctx context.Context, guardian int) (idle, error) {
	var sum idle
	var err error
	if sum.guardian, err = facts.PSS(guardian); err != nil {
		return sum, err
	}
	out, err := w.said(ctx, w.cloister, "list", "--json")
	if err != nil {
		return sum, err
	}
	var list []struct{ PID int }
	if err := json.Unmarshal(out, &list); err != nil {
		return sum, fmt.Errorf("read list: %w", err)
	}
	for _, s := range list {
		var counted []int
		for _, pid := range facts.Children(s.PID) {
			// A cloister's first process is a clone that shares its shim's memory:
			// both show all of it, and it is there once.
			if slices.ContainsFunc(counted, func(other int) bool { return sharesMemory(other, pid) }) {
				continue
			}
			counted = append(counted, pid)
			size, err := facts.PSS(pid)
			if err != nil {
				return sum, err
			}
			comm := facts.FirstWords("/proc/"+strconv.Itoa(pid)+"/comm", 1)
			if comm == "sleep" {
				sum.payload += size
			} else {
				sum.ours += size
			}
		}
	}
	return sum, nil
}

// measureMemory weighs an idle guardian, then ten idle cloisters. Only root may
// read the map of a process that cannot be dumped, which the guardian is.
func measureMemory(ctx context.Context, w *world) error {
	if os.Getuid() != 0 {
		return nil
	}
	const many = 10
	for range w.rounds(3) {
		pid, err := w.guardian(ctx, 9)
		if err != nil {
			return err
		}
		settle(ctx)
		before, err := w.weigh(ctx, pid)
		if err != nil {
			return err
		}
		w.raw.add("guardian", ours, "MB", before.guardian/1e6)
		for range many {
			if _, err := w.said(ctx, w.cloister, "run", "-d", "--", "sleep", "600"); err != nil {
				return err
			}
		}
		settle(ctx)
		after, err := w.weigh(ctx, pid)
		if err != nil {
			return err
		}
		w.raw.add("memory", ours, "MB", (after.ours+max(0, after.guardian-before.guardian))/many/1e6)
		w.raw.add("memory", "its processes alone", "MB", after.ours/many/1e6)
		w.raw.add("memory", "the guardian's growth", "MB", (after.guardian-before.guardian)/many/1e6)
		w.raw.add("memory", "its payload (sleep)", "MB", after.payload/many/1e6)
		if _, err := w.said(ctx, w.cloister, "stop", "--all"); err != nil {
			return err
		}
	}
	return nil
}

// settle lets what just started come to rest: idle is what is measured.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Second):
	}
}
