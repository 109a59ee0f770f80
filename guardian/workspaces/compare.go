package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/session/kept"
	"cloister/session/kept/compare"
	"cloister/session/launch"
)

const (
	// A person who compares waits for it: the bounds of one comparison.
	maxSides, maxPaths = 20, 1000
	// runWithin is how long the command may take in each.
	runWithin = 10 * time.Minute
	// maxOutput is how much of its output is looked at, from the end, and maxLine how much of
	// a line is shown, in bytes; maxNames is how much of paths and cells is.
	maxOutput, maxLine, maxNames = 64 << 10, 1 << 10, 512 << 10
)

// begin starts an agent in a fork.
func (r *Room) begin(ctx context.Context, project, name, agent string, args []string) error {
	_, _, err := r.Begin(ctx, launch.Order{
		Verb: "start", Project: project, Name: name, Agent: agent, Workspace: "overlay", Args: args,
	})
	return err
}

// compare sets workspaces side by side, and runs a command in a copy of each, one after
// the other. Where the browser goes away, no further one is begun.
func (r *Room) compare(ctx context.Context, h *kept.Hand, name string, in api.WorkspaceAct) (out api.WorkspaceActed,
	err error) {
	names := append([]string{name}, in.With...)
	if len(names) > maxSides {
		return out, &kept.Refused{Why: fmt.Sprintf("compare: want at most %d", maxSides), Hint: "cloister compare"}
	}
	c := api.Comparison{Names: names, Runs: []api.TestRun{}}
	var sides []*compare.Side
	for _, n := range names {
		side, err := r.side(ctx, h, n, in.Run)
		if err != nil {
			return out, err
		}
		if sides = append(sides, side); side.Run != nil {
			c.Runs = append(c.Runs, *side.Run)
		}
	}
	rows := compare.Rows(sides)
	c.Paths = rows[:fitting(rows)]
	c.More = len(rows) - len(c.Paths)
	return api.WorkspaceActed{Said: kept.Files(len(c.Paths) + c.More), Compared: &c}, nil
}

// fitting is how many rows have room in an answer.
func fitting(rows []api.ComparedPath) int {
	room := maxNames
	for i, row := range rows[:min(len(rows), maxPaths)] {
		room -= len(row.Path)
		for _, cell := range row.Cells {
			room -= len(cell)
		}
		if room < 0 {
			return i
		}
	}
	return min(len(rows), maxPaths)
}

func (r *Room) side(ctx context.Context, h *kept.Hand, name, command string) (side *compare.Side, err error) {
	w, err := lockSoon(ctx, h.Store, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if side, err = compare.Look(ctx, h, w, name, ""); err != nil || command == "" {
		return side, err
	}
	side.Run, err = compare.Try(ctx, h, w, "", command, func(ctx context.Context, name string) ([]byte, int, error) {
		return r.run(ctx, w.Project, name, command)
	})
	if err == nil {
		for i, line := range side.Run.Last {
			side.Run.Last[i] = termsafe.Clip(line, maxLine)
		}
	}
	return side, err
}

// run runs a command in a cloister of its own, and gives the end of what it prints.
func (r *Room) run(ctx context.Context, project, name, command string) (out []byte, status int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	answer, ended, err := r.Begin(context.WithoutCancel(ctx), launch.Order{
		Verb: "run", Project: project, Name: name, Workspace: "overlay", Timeout: runWithin,
		Args: []string{"sh", "-c", command},
	})
	if err != nil {
		return nil, 0, err
	}
	log := filepath.Join(r.Logs, filepath.Base(answer.Name)+".log")
	status, known := <-ended
	if !known {
		err := fmt.Errorf("compare: how the command ended in %s is not known", name)
		return nil, 0, errors.Join(err, os.Remove(log))
	}
	out, err = endOf(log)
	return out, status, errors.Join(err, os.Remove(log))
}

// endOf is the end of a file, with what a screen would obey escaped.
func endOf(path string) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-maxOutput), maxOutput))
	return []byte(termsafe.Lines(string(text))), err
}
