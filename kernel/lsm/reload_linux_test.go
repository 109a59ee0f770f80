package lsm_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"cloister/kernel/lsm"
)

// hammer opens without pause what both policies forbid and what both permit, and at each word what
// one of them forbids, until there are no more words.
func hammer() error {
	done, failed := make(chan struct{}), make(chan error, 4)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					if i < 1000 {
						failed <- fmt.Errorf("only %d opens", i)
					}
					return
				default:
				}
				if f, err := os.Open("/t/secret/key"); err == nil {
					f.Close()
					failed <- errors.New("what both forbid was opened")
					return
				}
				f, err := os.Open("/t/open/file")
				if err != nil {
					failed <- fmt.Errorf("what both permit was refused: %w", err)
					return
				}
				f.Close()
			}
		})
	}
	fmt.Println("up")
	words := bufio.NewReader(os.Stdin)
	for {
		if _, err := words.ReadString('\n'); err != nil {
			break
		}
		f, err := os.Open("/t/single")
		if err == nil {
			f.Close()
		}
		fmt.Println(err == nil)
	}
	close(done)
	wait.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// One policy takes another's place a thousand times under opens: what both forbid never opens, what
// both permit is never refused, and what begins after a flip is judged by the newer one.
func TestKernelFlips(t *testing.T) {
	const flips = 1000
	s := begin(t)
	tree(t)
	policies := []lsm.Policy{
		{Permit: lsm.All, Rules: []lsm.Rule{secret, {Path: "/t/single", Forbid: lsm.All}}},
		{Permit: lsm.All, Rules: []lsm.Rule{{Path: "/t/kept", Forbid: lsm.Write}, secret}},
	}
	if err := s.Apply(os.Getpid(), policies[0]); err != nil {
		t.Fatal(err)
	}
	c := start(t, "hammer", true)
	if line, err := c.out.ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	for i := range flips {
		next := (i + 1) % 2
		if err := s.Replace(policies[next]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c.in, "go\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := c.out.ReadString('\n'); line != fmt.Sprintln(next == 1) {
			t.Fatalf("after flip %d it opened what only one forbids: %q, %v", i, line, err)
		}
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if got := c.result(nil); got != "through" {
		t.Errorf("after %d flips: %s", flips, got)
	}
}

// A policy that cannot be put in force leaves the one before whole, and an object that was renamed
// between two policies with the same rule is forbidden under its new name.
func TestKernelFlipsKeep(t *testing.T) {
	s := begin(t)
	tree(t)
	noExec := lsm.Rule{Path: "/t/bin/other", Forbid: lsm.Exec | lsm.Code}
	if err := s.Apply(os.Getpid(), lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{noExec}}); err != nil {
		t.Fatal(err)
	}
	err := s.Replace(lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{secret, {Path: "/t/none", Forbid: lsm.Read}}})
	if _, missing := errors.AsType[*lsm.Absent](err); !missing {
		t.Fatalf("a rule of nothing: %v", err)
	}
	if got := start(t, "open", true).result(nil); got != "through" {
		t.Errorf("a policy that was refused is in force: %s", got)
	}
	if got := start(t, "run other", true).result(nil); !strings.HasPrefix(got, "EACCES") {
		t.Errorf("the policy before is not: %s", got)
	}
	if got := start(t, "move other", true).result(nil); got != "through" {
		t.Fatalf("the control: it was not renamed: %s", got)
	}
	if got := start(t, "run moved", true).result(nil); !strings.HasPrefix(got, "EACCES") {
		t.Errorf("renamed: %s", got)
	}
	for i, p := range []lsm.Policy{
		{Permit: lsm.All, Rules: []lsm.Rule{secret, noExec}},
		{Permit: lsm.All, Rules: []lsm.Rule{noExec, {Path: "/t/open", Forbid: lsm.Write}}},
	} {
		if err := s.Replace(p); err != nil {
			t.Fatal(err)
		}
		if got := start(t, "run moved", true).result(nil); !strings.HasPrefix(got, "EACCES") {
			t.Errorf("renamed, after %d policies: %s", i+1, got)
		}
	}
	// A folder where a list names a file permits nothing, and stops no policy.
	list := lists()
	list.Rules = append(list.Rules, noExec, lsm.Rule{Path: "/t/open/dir", Permit: lsm.Read, File: true, Maybe: true})
	if err := s.Replace(*list); err != nil {
		t.Errorf("a folder where a file was permitted: %v", err)
	}
	if err := s.Replace(lsm.Policy{Permit: lsm.All}); err != nil {
		t.Fatal(err)
	}
	if got := start(t, "run moved", true).result(nil); got != "through" {
		t.Errorf("without the rule: %s", got)
	}
}

func moveOther() error {
	text, err := os.ReadFile("/t/bin/other")
	if err != nil {
		return err
	}
	return errors.Join(os.Rename("/t/bin/other", "/t/open/moved"), os.WriteFile("/t/bin/other", text, 0o755))
}
