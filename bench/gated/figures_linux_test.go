package gated_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/bench/gated"
)

// TestFigures measures what docs/decisions/0073 says, live and overlay beside gated, in the same
// run. CLOISTER_GATED=all takes minutes, and one of its subjects less; without it a few are tried
// once, small.
//
//	CLOISTER_GATED=all go test ./bench/gated -run '^TestFigures$' -v -timeout 30m
func TestFigures(t *testing.T) {
	if !apart(t) {
		return
	}
	m := size{saves: 3, flood: 200, folders: 20}
	only := os.Getenv("CLOISTER_GATED")
	if only != "" {
		m = size{saves: 300, packages: 50, files: 100, rounds: 3, switched: 500, flood: 100_000, folders: 2000, commits: 20}
	}
	ways := []gated.Learn{gated.Inotify}
	if only != "" {
		ways = append(ways, gated.Walk)
		if !inUserNamespace(t) {
			ways = append(ways, gated.Fanotify)
		}
	}
	for _, subject := range []struct {
		name  string
		short bool
		do    func(*testing.T)
	}{
		{"start", true, func(t *testing.T) { measureStart(t, m) }},
		{"saves", true, func(t *testing.T) { measureSaves(t, m, ways, false) }},
		{"switch", false, func(t *testing.T) { measureSwitch(t, m) }},
		{"busy", false, func(t *testing.T) { measureSaves(t, m, ways[:1], true) }},
		{"watchers", false, measureWatchers},
		{"commits", false, func(t *testing.T) { measureCommits(t, m) }},
		{"npm", false, func(t *testing.T) { measureNpm(t, m, ways[:1]) }},
		{"flood", true, func(t *testing.T) { measureFlood(t, m, ways[:1]) }},
	} {
		if only == "all" || only == subject.name || only == "" && subject.short {
			t.Run(subject.name, subject.do)
		}
	}
}

// size is how much is measured.
type size struct{ saves, packages, files, rounds, switched, flood, folders, commits int }

func tell(t *testing.T, subject, contender string, format string, args ...any) {
	t.Helper()
	t.Logf("%-44s %-22s %s", subject, contender, fmt.Sprintf(format, args...))
}

// quantiles are the 50th, 95th and 99th of a hundred, and the most.
func quantiles(list []time.Duration) string {
	slices.Sort(list)
	at := func(q float64) float64 {
		return float64(list[min(int(q*float64(len(list))), len(list)-1)].Microseconds()) / 1000
	}
	return fmt.Sprintf("p50 %.2f ms, p95 %.2f, p99 %.2f, most %.2f (%d)", at(0.5), at(0.95), at(0.99), at(1), len(list))
}

// cpu is the processor time of this process: the writer's, and of little else.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	ok(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// settled waits until nothing waits and the writer was quiet for a while.
func settled(t *testing.T, s *sides) {
	t.Helper()
	for last := (gated.Counts{Out: -1}); ; {
		now := s.w.Done()
		if now.Out == last.Out && now.In == last.In && now.Again == last.Again && s.w.Idle() {
			return
		}
		last = now
		pause(t, 100*time.Millisecond)
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal("the test is over")
	case <-time.After(d):
	}
}

// watcher sees the events of one folder, as a program beside would.
type watcher struct {
	ino    *os.File
	mu     sync.Mutex
	masks  map[string]uint32
	events chan string
	end    func()
}

func watchFolder(t *testing.T, dir string) *watcher {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	ok(t, err)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_ALL_EVENTS&^(unix.IN_ACCESS|unix.IN_OPEN|unix.IN_CLOSE_NOWRITE))
	ok(t, err)
	w := &watcher{ino: os.NewFile(uintptr(fd), "inotify"), masks: map[string]uint32{}, events: make(chan string, 4096)}
	go func() {
		defer close(w.events)
		buf := make([]byte, 64<<10)
		for {
			n, err := w.ino.Read(buf)
			if err != nil {
				return
			}
			for at := buf[:n]; len(at) >= unix.SizeofInotifyEvent; {
				size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(at[12:]))
				name := string(bytes.TrimRight(at[unix.SizeofInotifyEvent:size], "\x00"))
				w.mu.Lock()
				w.masks[name] |= binary.NativeEndian.Uint32(at[4:])
				w.mu.Unlock()
				w.events <- name
				at = at[size:]
			}
		}
	}()
	w.end = sync.OnceFunc(func() {
		_ = w.ino.Close()
		for range w.events { // until it has ended
		}
	})
	t.Cleanup(w.end)
	return w
}

// sees waits until a file has a content, looking at it after each event, and reports when.
func (w *watcher) sees(t *testing.T, file, text string) (at time.Time, seen bool) {
	t.Helper()
	late := time.After(patience)
	for {
		if has(file, text) {
			return time.Now(), true
		}
		select {
		case <-w.events:
		case <-late:
			return time.Now(), has(file, text)
		}
	}
}

// editors are how editors save a file that is there.
var editors = []struct {
	name string
	save func(t *testing.T, top, file, text string)
}{
	{"in place (VS Code)", func(t *testing.T, top, file, text string) { put(t, top, file, text) }},
	{"backup and new file (vim)", func(t *testing.T, top, file, text string) {
		move(t, top, file, file+"~")
		put(t, top, file, text)
		remove(t, top, file+"~")
	}},
	{"renamed over (JetBrains, agents)", func(t *testing.T, top, file, text string) {
		put(t, top, file+".tmp", text)
		move(t, top, file+".tmp", file)
	}},
}

func measureSaves(t *testing.T, m size, ways []gated.Learn, busy bool) {
	t.Helper()
	for _, how := range ways {
		measureSavesBy(t, m, how, busy)
	}
}

func measureSavesBy(t *testing.T, m size, how gated.Learn, busy bool) {
	t.Helper()
	for _, e := range editors {
		for _, side := range []string{"live", "inside to host", "host to inside"} {
			if side == "live" && (how != gated.Inotify || busy) || side == "host to inside" && how != gated.Inotify {
				continue
			}
			s := lay(t)
			put(t, s.project, "src/a.go", "at first")
			tree(t, s.view)
			if side != "live" {
				s.open(t, how, false)
			}
			from, to := s.view, s.project
			switch side {
			case "live":
				from = s.project
			case "host to inside":
				from, to = s.project, s.view
			}
			w := watchFolder(t, filepath.Join(to, "src"))
			stopBusy := func() {}
			if busy {
				stopBusy = makeBusy(t, s.view)
			}
			var took []time.Duration
			before := cpu(t)
			for i := range m.saves {
				text := strings.Repeat("package a\n", 400) + strconv.Itoa(i)
				began := time.Now()
				e.save(t, filepath.Join(from, "src"), "a.go", text)
				at, seen := w.sees(t, filepath.Join(to, "src/a.go"), text)
				if !seen {
					t.Fatalf("%s, %s: save %d was never seen: %v", side, e.name, i, s.w.Waiting())
				}
				took = append(took, at.Sub(began))
				pause(t, time.Millisecond)
			}
			stopBusy()
			who := side
			if side != "live" {
				who += ", " + string(how)
			}
			if busy {
				who += ", busy"
			}
			tell(t, "save, "+e.name, who, "%s, processor %.2f ms each", quantiles(took),
				float64((cpu(t)-before).Microseconds())/1000/float64(m.saves))
			w.end()
			s.end()
		}
	}
}

// makeBusy writes small files in the view, as an install does, until its result is called.
func makeBusy(t *testing.T, view string) (stop func()) {
	t.Helper()
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if i%50 == 0 { // some 3,000 files in a second, as npm writes them
				<-time.After(15 * time.Millisecond)
			}
			dir := filepath.Join(view, "node_modules", strconv.Itoa(i/50))
			_ = os.MkdirAll(dir, 0o755)
			_ = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), bytes.Repeat([]byte("x"), 2000), 0o644)
		}
	}()
	return func() { close(done); <-over }
}

// measureStart opens a writer over a large project.
func measureStart(t *testing.T, m size) {
	t.Helper()
	s := lay(t)
	for d := range m.folders {
		for f := range 25 {
			put(t, s.project, fmt.Sprintf("d%d/d%d/f%d", d/40, d, f), "text")
		}
	}

	began := time.Now()
	s.open(t, gated.Inotify, false)
	took := time.Since(began)

	tell(t, fmt.Sprintf("start, %d files in %d folders", m.folders*25, m.folders), "gated", "%.1f ms", float64(took.Microseconds())/1000)
	if m.packages == 0 {
		return
	}
	c := cpu(t)
	pause(t, 10*time.Second)
	tell(t, "ten seconds in which nothing happens", "gated", "processor %.2f ms", float64((cpu(t)-c).Microseconds())/1000)
}

// measureWatchers says what a watcher on the other side sees of one save.
func measureWatchers(t *testing.T) {
	t.Helper()
	for _, way := range []string{"live", "overlay", "gated"} {
		for _, e := range editors {
			for _, from := range []string{"inside", "host"} {
				s := lay(t)
				put(t, s.project, "a.go", "at first", "last", "")
				tree(t, s.view)
				if way == "gated" {
					s.open(t, gated.Inotify, false)
				}
				a, b := s.view, s.project
				if from == "host" {
					a, b = b, a
				}
				if way == "live" {
					a, b = s.project, s.project
				}
				w := watchFolder(t, b)
				e.save(t, a, "a.go", "saved")
				if way == "gated" {
					w.sees(t, filepath.Join(b, "a.go"), "saved")
				}
				pause(t, 100*time.Millisecond)
				w.mu.Lock()
				var names []string
				for mask, name := range map[uint32]string{unix.IN_MODIFY: "modify", unix.IN_CLOSE_WRITE: "close", unix.IN_MOVED_TO: "moved to", unix.IN_MOVED_FROM: "moved from", unix.IN_CREATE: "create", unix.IN_DELETE: "delete"} {
					if w.masks["a.go"]&mask != 0 {
						names = append(names, name)
					}
				}
				w.mu.Unlock()
				slices.Sort(names)
				tell(t, "watched from the other side, "+e.name, way+", saved "+from, "content %v, events %q", has(filepath.Join(b, "a.go"), "saved"), names)
				w.end()
				s.end()
			}
		}
	}
}

// measureSwitch switches branches on one side, and looks with git on the other.
func measureSwitch(t *testing.T, m size) {
	t.Helper()
	for _, way := range []string{"live", "overlay", "gated"} {
		for _, from := range []string{"inside", "host"} {
			s := lay(t)
			repository(t, s.project, m.switched)
			a, b := s.view, s.project
			if from == "host" {
				a, b = b, a
			}
			if way == "live" {
				a, b = s.project, s.project
			}
			tree(t, s.view)
			git(t, a, "status")
			if way == "gated" {
				s.open(t, gated.Inotify, false)
			}
			c, began := cpu(t), time.Now()
			git(t, a, "checkout", "-q", "other")
			own, status := time.Since(began), ""
			if way == "gated" {
				for tree(t, s.project) != tree(t, s.view) {
					pause(t, 25*time.Millisecond)
				}
			}
			alike := time.Since(began)
			used := cpu(t) - c
			second := time.Now()
			status = git(t, b, "status", "--porcelain", "--branch")
			looked := time.Since(second)
			lines := strings.Count(status, "\n")
			head, _, _ := strings.Cut(status, "\n")
			tell(t, fmt.Sprintf("branch switch of %d files", m.switched), way+", "+from,
				"git %.0f ms, alike after %.0f ms, processor of the writer and the test %.0f ms; the other side: %s, %d changed, status %.0f ms",
				ms(own), ms(alike), ms(used), head, lines, ms(looked))
			if way == "gated" {
				settled(t, s)
				for i := range 3 { // each look writes the index, which goes to the other side
					one := time.Now()
					git(t, a, "status")
					two := time.Now()
					git(t, b, "status")
					tell(t, fmt.Sprintf("git status by turns, %d", i+1), way+", "+from, "here %.0f ms, there %.0f ms", ms(two.Sub(one)), ms(time.Since(two)))
					settled(t, s)
				}
				if w := s.w.Waiting(); len(w) > 0 {
					tell(t, "waiting", way, "%v", w)
				}
			}
			s.end()
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// measureCommits commits on both sides at the same time.
func measureCommits(t *testing.T, m size) {
	t.Helper()
	for _, way := range []string{"live", "gated"} {
		refused, both, told, broken, lost := 0, 0, 0, 0, 0
		for range m.commits {
			s := lay(t)
			repository(t, s.project, 5)
			other := s.project
			if way == "gated" {
				tree(t, s.view)
				s.open(t, gated.Inotify, false)
				other = s.view
			}
			put(t, s.project, "one", "one")
			put(t, other, "two", "two")
			var wait sync.WaitGroup
			var failed [2]bool
			for i, side := range []string{s.project, other} {
				wait.Go(func() {
					file := []string{"one", "two"}[i]
					failed[i] = quietGit(t, side, "add", file) != nil || quietGit(t, side, "commit", "-q", "-m", file, file) != nil
				})
			}
			wait.Wait()
			if failed[0] || failed[1] {
				refused++
			} else {
				both++
			}
			if way == "gated" {
				settled(t, s)
				if slices.ContainsFunc(s.w.Waiting(), func(w gated.Told) bool { return strings.HasPrefix(w.Path, ".git/") }) {
					told++
				}
			}
			if quietGit(t, s.project, "fsck", "--strict") != nil || quietGit(t, other, "fsck", "--strict") != nil {
				broken++
			}
			log := git(t, s.project, "log", "--format=%s")
			for i, name := range []string{"one", "two"} {
				if !failed[i] && !strings.Contains("\n"+log+"\n", "\n"+name+"\n") {
					lost++
				}
			}
			s.end()
		}
		tell(t, "commits at the same time", way, "%d: one refused %d, both made %d, conflict in .git told %d, fsck fails %d, made but not on the host's branch %d",
			m.commits, refused, both, told, broken, lost)
	}
}

func quietGit(t *testing.T, dir string, args ...string) error {
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	return cmd.Run()
}

// measureNpm installs packages from files.
func measureNpm(t *testing.T, m size, ways []gated.Learn) {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		tell(t, "npm install", "", "no npm here")
		return
	}
	tars := packages(t, m)
	var contenders []string
	for _, how := range ways {
		contenders = append(contenders, "gated, "+string(how))
	}
	contenders = append([]string{"live", "overlay"}, contenders...)
	took, all, used := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string][]time.Duration{}
	cache := t.TempDir()
	for round := range m.rounds + 1 {
		for _, who := range contenders {
			s := lay(t)
			var deps []string
			for i := range m.packages {
				deps = append(deps, fmt.Sprintf("%q: %q", "p"+strconv.Itoa(i), "file:"+filepath.Join(tars, fmt.Sprintf("p%d-1.0.0.tgz", i))))
			}
			put(t, s.project, "package.json", `{"name": "top", "version": "1.0.0", "dependencies": {`+strings.Join(deps, ",")+`}}`)
			dir := s.view
			how, isGated := strings.CutPrefix(who, "gated, ")
			switch {
			case who == "live":
				dir = s.project
			case isGated:
				s.open(t, gated.Learn(how), false)
			}
			c, began := cpu(t), time.Now()
			cmd := exec.CommandContext(t.Context(), npm, "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", cache)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("npm: %v: %s", err, out)
			}
			own := time.Since(began)
			if isGated {
				want := count(t, dir)
				for count(t, s.project) != want {
					if time.Since(began) > time.Minute {
						t.Fatalf("%s: %d of %d arrived: %+v %v", who, count(t, s.project), want, s.w.Done(), s.w.Waiting())
					}
					pause(t, 50*time.Millisecond)
				}
			}
			used1, all1 := cpu(t)-c, time.Since(began)
			tell(t, "npm install, round "+strconv.Itoa(round), who, "npm %.0f ms, all %.0f ms, processor %.0f ms", ms(own), ms(all1), ms(used1))
			if isGated && round == 1 {
				tell(t, "npm install, the writer", who, "%+v, waiting %d", s.w.Done(), len(s.w.Waiting()))
			}
			s.end()
			if round == 0 {
				continue // the cache is warm now
			}
			took[who] = append(took[who], own)
			all[who] = append(all[who], all1)
			used[who] = append(used[who], used1)
		}
	}
	base := median(took["live"])
	for _, who := range contenders {
		tell(t, fmt.Sprintf("npm install of %d files", m.packages*m.files), who,
			"npm %.0f ms (%.2f of live), all on the host after %.0f ms (%.2f), processor of the writer %.0f ms (%d rounds, medians)",
			ms(median(took[who])), float64(median(took[who]))/float64(base), ms(median(all[who])),
			float64(median(all[who]))/float64(base), ms(median(used[who])), m.rounds)
	}
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// count counts the entries of a folder.
func count(t *testing.T, top string) (n int) {
	t.Helper()
	err := filepath.WalkDir(top, func(_ string, d fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if d != nil && d.Name() == ".cloister-gated" {
			return fs.SkipDir
		}
		n++
		return nil
	})
	ok(t, err)
	return n
}

// packages makes the files that npm installs from.
func packages(t *testing.T, m size) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range m.packages {
		src := filepath.Join(t.TempDir(), "package")
		put(t, src, "package.json", fmt.Sprintf(`{"name": "p%d", "version": "1.0.0"}`, i))
		for f := range m.files - 1 {
			put(t, src, fmt.Sprintf("lib/d%d/f%d.js", f/20, f), strings.Repeat(fmt.Sprintf("exports.a%d = %d;\n", f, i), 100))
		}
		cmd := exec.CommandContext(t.Context(), "tar", "-czf", filepath.Join(dir, fmt.Sprintf("p%d-1.0.0.tgz", i)), "-C", filepath.Dir(src), "package")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("tar: %v: %s", err, out)
		}
	}
	return dir
}

// measureFlood writes many small files as fast as it goes.
func measureFlood(t *testing.T, m size, ways []gated.Learn) {
	t.Helper()
	write := func(top string) time.Duration {
		began := time.Now()
		for i := range m.flood {
			dir := filepath.Join(top, "flood", strconv.Itoa(i/1000))
			if i%1000 == 0 {
				ok(t, os.MkdirAll(dir, 0o755))
			}
			ok(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("small"), 0o644))
		}
		return time.Since(began)
	}
	for _, who := range []string{"live", "overlay"} {
		s := lay(t)
		top := s.view
		if who == "live" {
			top = s.project
		}
		tell(t, fmt.Sprintf("%d small files", m.flood), who, "written in %.0f ms", ms(write(top)))
		s.end()
	}
	for _, how := range ways {
		s := lay(t)
		put(t, s.project, "a.go", "at first")
		s.open(t, how, false)
		c, began := cpu(t), time.Now()
		wrote := write(s.view)
		put(t, s.view, "a.go", "saved in the midst of it")
		w := watchFolder(t, s.project)
		saved := time.Now()
		at, _ := w.sees(t, filepath.Join(s.project, "a.go"), "saved in the midst of it")
		want := count(t, s.view)
		waited := 0
		for count(t, s.project) != want {
			if waited++; waited > 600 {
				t.Fatalf("%d of %d arrived: %v", count(t, s.project), want, s.w.Done())
			}
			pause(t, 200*time.Millisecond)
		}
		var u unix.Rusage
		ok(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		tell(t, fmt.Sprintf("%d small files", m.flood), "gated, "+string(how),
			"written in %.0f ms, all on the host after %.0f ms, a save behind them after %.0f ms, processor of writer and test %.0f ms, %+v, most memory of the test %d MB",
			ms(wrote), ms(time.Since(began)), ms(at.Sub(saved)), ms(cpu(t)-c), s.w.Done(), u.Maxrss>>10)
		w.end()
		s.end()
	}
}
