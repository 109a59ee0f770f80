// Package tree copies folders of the host into a pod, and brings what changed there back as the
// upper layers of overlays.
//
// [Send] writes what an overlay would show: base, checkpoints and upper layer as one tree, without
// what is covered. [Fill] makes it in the pod. [Copies.Pack] writes what differs there, and
// [Receive] makes it the new upper layer, whole or not at all.
//
// The promise: what comes out of a pod is taken as a payload's work. It is unpacked below a folder
// that nothing else writes to, through no link, without devices, owners or set-id bits, within
// bounds, and nothing of it at a protected path. The host's own files are only read. It decides
// nothing about what reaches the project: package state/store does, at apply.
package tree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cloister/internal/realpath"
	"cloister/sandbox"
)

// Tree is a folder of the host that a pod has a copy of.
type Tree struct {
	Source string
	Target string // inside
	// Upper is where what changed is kept; nil keeps nothing.
	Upper *sandbox.Upper
	// Covers are shown as something else, by paths in the tree.
	Covers map[string]Cover
	// Held are paths in the tree of which nothing is brought back.
	Held []string
}

// Cover is what is shown instead of an entry: a file of that text, or an empty folder.
type Cover struct {
	Folder bool
	Text   []byte
}

// Trees are the folders of a Spec that are copied. A bind that is none is an error.
func Trees(s sandbox.Spec) ([]Tree, error) {
	var out []Tree
	for _, b := range s.Binds {
		if !b.Overlay || b.File || b.Access != sandbox.ReadWrite {
			return nil, fmt.Errorf("copy %s: it is no folder over which changes are kept", b.Source)
		}
		t := Tree{Source: string(b.Source), Target: string(b.Target), Upper: b.Upper, Covers: map[string]Cover{}}
		for _, p := range s.Protect {
			rel, in := strings.CutPrefix(string(p.Target), t.Target+"/")
			if !in || p.Pin {
				continue
			}
			t.Held = append(t.Held, rel)
			if !p.Empty && p.Instead == "" {
				continue
			}
			c := Cover{Folder: !p.File && p.Instead == ""}
			for _, f := range s.Files {
				if f.Path != p.Instead {
					continue
				}
				text, err := f.Content()
				if err != nil {
					return nil, fmt.Errorf("cover %s: %w", p.Target, err)
				}
				c.Text = text
			}
			t.Covers[rel] = c
		}
		out = append(out, t)
	}
	return out, nil
}

// holds reports whether nothing at a path is brought back.
func (t Tree) holds(name string) bool {
	for _, h := range t.Held {
		if realpath.Inside("/"+name, "/"+h) {
			return true
		}
	}
	return false
}

// above reports whether something that is held lies below a path.
func (t Tree) above(name string) bool {
	for _, h := range t.Held {
		if h != name && realpath.Inside("/"+h, "/"+name) {
			return true
		}
	}
	return false
}

const (
	// maxDepth bounds folders in each other.
	maxDepth = 256
	// paxState tells of an entry that is not what lies below the upper layer.
	paxState = "CLOISTER.state"
	stateNew = "new"
	// paxOpaque and paxSparse are as package state/layers has them.
	paxOpaque = "CLOISTER.opaque"
	paxSparse = "CLOISTER.sparse"
)

// Bounds of what a pod sends and of what is taken from it.
const (
	mostEntries = 2_000_000
	mostBytes   = 64 << 30
)

// bounds counts towards them. The sizes are an archive's, and no two of them are added before they are compared.
type bounds struct {
	entries int
	bytes   int64
}

func (b *bounds) entry() error {
	if b.entries++; b.entries > mostEntries {
		return fmt.Errorf("there are more than %d entries", mostEntries)
	}
	return nil
}

func (b *bounds) content(size int64) error {
	if size > mostBytes-b.bytes {
		return fmt.Errorf("there are more than %d bytes", int64(mostBytes))
	}
	b.bytes += size
	return nil
}

// number splits an entry's name into the tree's number and the path in it.
func number(name string, most int) (int, string, error) {
	first, rest, ok := strings.Cut(strings.TrimSuffix(name, "/"), "/")
	n, err := strconv.Atoi(first)
	if !ok || err != nil || n < 0 || n >= most || strconv.Itoa(n) != first {
		return 0, "", fmt.Errorf("%.100q is in no tree", name)
	}
	return n, rest, nil
}

var errDeep = errors.New("too many folders in each other")
