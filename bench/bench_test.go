package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What the pages say is what the kept figures say.
func TestThePagesAreWrittenFromTheFigures(t *testing.T) {
	for page, of := range pages {
		want, err := of(filepath.Join("..", "docs", "bench"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("write %s anew with go run ./bench -doc (-want +got):\n%s", page, diff)
		}
	}
}

// sample is a run in which every budget has its series.
func sample(figure float64) *raw {
	r := &raw{Time: time.Unix(0, 0), Commit: "0123456789", User: "root", Peers: map[string]string{}}
	for _, b := range budgets() {
		name := b.contender
		if name == "" {
			name = ours
		}
		if _, ok := r.find(b.subject, name); !ok {
			r.add(b.subject, name, "u", figure)
		}
		if _, ok := r.find(b.subject, b.peer); b.peer != "" && !ok {
			r.add(b.subject, b.peer, "u", 1)
		}
	}
	return r
}

func TestJudge(t *testing.T) {
	met := func(r *raw) map[string]bool {
		out := map[string]bool{}
		for _, v := range judge(r) {
			if v.judged {
				out[v.title+" "+v.peer] = v.met
			}
		}
		return out
	}
	tenth, hundred := met(sample(0.01)), met(sample(1000))
	for _, b := range budgets() {
		if b.told || b.peer != "" && b.most == 0 && b.least == 0 {
			continue
		}
		less := b.least == 0 || b.inverse // less is better
		key := b.title + " " + b.peer
		if strings.Contains(key, "allocations") {
			continue // their bound is nothing at all
		}
		if tenth[key] != less || hundred[key] == less {
			t.Errorf("%s: met %v at 0.01 and %v at 1000", key, tenth[key], hundred[key])
		}
	}
	r := sample(1)
	r.Series = r.Series[:1]
	if n := len(judge(r)); n != 0 {
		t.Errorf("%d budgets are judged without their peer", n)
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := (series{Values: tt.values}).median(); got != tt.want {
			t.Errorf("median of %v is %v", tt.values, got)
		}
	}
}

func TestMissingPeersAreTold(t *testing.T) {
	dir := t.TempDir()
	r := sample(1)
	for _, name := range peerNames() {
		r.Peers[name] = "not installed here"
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := document(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range peerNames() {
		if !bytes.Contains(page, []byte(name+" not installed here")) {
			t.Errorf("nothing is said of %s", name)
		}
	}
	if _, err := document(t.TempDir()); err == nil {
		t.Error("a page out of nothing")
	}
}

func TestCompactKeepsTheValues(t *testing.T) {
	r := sample(12.5)
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	back := &raw{}
	if err := json.Unmarshal(compact(text), back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Series, back.Series); diff != "" {
		t.Error(diff)
	}
}
