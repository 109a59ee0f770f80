package lsmtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

const containersTest = "TestProductJudgesContainers"

// inImage are statements about files of an image's, which another file system shows than the project's.
const inImage = `@id("no-image-tools") forbid (principal, action == Action::"ProcessExec", resource in Dir::"/image/tools/");
@id("no-image-secret") forbid (principal, action == Action::"FileOpen", resource == File::"/image/secret");
`

// ways are attempts at what the statements forbid, each of which says that it went through.
const ways = `tools/busybox echo by its name ran
(cd tools; ./busybox echo from its folder ran)
ln tools/busybox echo; ./echo by a hard link ran; rm -f echo
ln -s tools/busybox echo; ./echo by a symbolic link ran; rm -f echo
mv tools/busybox echo; ./echo renamed ran; mv echo tools/busybox
mv tools others; others/busybox echo its folder renamed ran; mv others tools
/proc/self/cwd/tools/busybox echo by a working folder ran
(exec 7<tools/script; /proc/self/fd/7 by a descriptor ran)
/image/tools/busybox echo of the image ran
cat secret; cat also; cat /image/secret; cat <secret
(exec 7<also; cat /proc/self/fd/7)
mount -o bind tools /tmp
cat plain`

// A talk is a session that does what it is told, line by line.
type talk struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	said  strings.Builder
}

func inContainer(words ...string) []string {
	return append([]string{"run", "--isolation", "docker", "--image", "t/base", "--no-network"}, words...)
}

// open begins one in a container.
func open(t *testing.T, words ...string) *talk {
	t.Helper()
	return begin(t, inContainer(words...)...)
}

// begin begins one by these words.
func begin(t *testing.T, words ...string) *talk {
	t.Helper()
	words = append(words, "--", "/bin/busybox", "sh", "-c", `echo up; while read line; do eval "$line" 2>&1; echo done; done`)
	s := &talk{t: t, cmd: exec.CommandContext(t.Context(), "/bin/cloister", words...)}
	s.cmd.Dir, s.cmd.Stderr = "/work", &s.said
	in, inErr := s.cmd.StdinPipe()
	out, outErr := s.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, s.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	s.in, s.lines = in, bufio.NewReader(out)
	if line, err := s.lines.ReadString('\n'); line != "up\n" {
		t.Fatalf("it said %q, %v, and ended: %v\n%s", line, err, s.cmd.Wait(), s.said.String())
	}
	return s
}

func (s *talk) do(line string) (out string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, strings.ReplaceAll(line, "\n", "; ")+"\n"); err != nil {
		s.t.Fatalf("%v\n%s", err, s.said.String())
	}
	for {
		text, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%v after\n%s\n%s", err, out, s.said.String())
		}
		if text == "done\n" {
			return out
		}
		out += text
	}
}

func (s *talk) end() {
	s.t.Helper()
	if err := errors.Join(s.in.Close(), s.cmd.Wait()); err != nil {
		s.t.Errorf("%v\n%s", err, s.said.String())
	}
}

// through is what went through of an attempt.
func through(out string) (list []string) {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasSuffix(line, " ran") || strings.Contains(line, "secret") && !strings.Contains(line, ":") {
			list = append(list, line)
		}
	}
	return list
}

// refused says that nothing went through, and that the shell did go on to the end.
func refused(t *testing.T, what, out string) {
	t.Helper()
	if got := through(out); len(got) > 0 || !strings.Contains(out, "plain text") {
		t.Errorf("%s: %q went through\n%s", what, got, out)
	}
}

// The kernel judges containers: what the command does, and whoever is put into its control group.
func TestProductJudgesContainers(t *testing.T) {
	inGuest(t)
	e := startEngine(t)
	e.image("t/base")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("/work/policy.cedar", statements+inImage)
	write("/work/tools/script", "#!/bin/sh\necho \"$@\"\n")
	if err := os.Chmod("/work/tools/script", 0o755); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name string
		run  func(*testing.T, *host)
	}{
		{"said", saidOfContainers}, {"ways", waysInContainers}, {"reload", reloadsContainers}, {"list", listsInContainers}, {"again", restartsContainers}, {"lost", losesContainers},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) { s.run(t, &host{t, e.Client}) })
	}
	if left, err := filepath.Glob("/sys/fs/bpf/*"); err != nil || len(left) > 0 {
		t.Errorf("left in the kernel: %q, %v", left, err)
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/docker/*/cgroup.procs"); err != nil || len(left) > 0 {
		t.Errorf("groups that are left: %q, %v", left, err)
	}
}

func saidOfContainers(t *testing.T, _ *host) {
	out, _ := cloister(t, "doctor")
	if strings.Count(out, "attached to a security hook") < 2 {
		t.Errorf("doctor:\n%s", out)
	}
	if out, _ := cloister(t, "policy", "check", "policy.cedar"); !strings.Contains(out, "in native and docker") {
		t.Errorf("policy check:\n%s", out)
	}
}

// Two sessions try the same: one without statements, which is the control, and one with them.
func waysInContainers(t *testing.T, e *host) {
	free := open(t, "--name", "free")
	out := free.do(ways)
	fmt.Printf("@@ without statements: %q\n", through(out))
	if got := through(out); len(got) != 14 || !strings.Contains(out, "plain text") {
		t.Errorf("the control: %q\n%s", got, out)
	}
	s := open(t, "--name", "kept", "--policy", "policy.cedar")
	refused(t, "with the statements", s.do(ways))
	fmt.Printf("@@ another link of a file of the image: %q\n", s.do("cat /image/also"))
	out, _ = cloister(t, "exec", "kept", "--", "/bin/sh", "-c", "echo joined; "+ways)
	if !strings.Contains(out, "joined") {
		t.Errorf("a command that joined:\n%s", out)
	}
	refused(t, "a command that joined", out)
	besideContainers(t, e, free, s)
	free.end()
	s.end()
	record, _ := cloister(t, "audit", "export", "--session", "kept")
	for _, want := range []string{`"kind":"file.denied"`, `"action":"execute"`, `"resource":"/work/tools/busybox"`, `"rule":"no-tools"`,
		`"rule":"no-secret"`, `"rule":"no-image-tools"`, "the kernel refused it to", `"kind":"exec"`, `"resource":"/bin/busybox"`} {
		if !strings.Contains(record, want) {
			t.Errorf("the record has no %s:\n%s", want, record)
		}
	}
}

// Who enters the container by the engine is judged, also as root; another container of the image is not.
func besideContainers(t *testing.T, e *host, free, s *talk) {
	root := map[string]any{"User": "0:0", "Privileged": true, "WorkingDir": "/work"}
	user := map[string]any{"WorkingDir": "/work"}
	tries := []string{"tools/busybox echo tool ran", "cat also", "/image/tools/busybox echo image ran"}
	for i, try := range tries {
		if out := e.execute(e.container("free"), root, "/bin/sh", "-c", try); len(through(out)) == 0 {
			t.Errorf("the control %d: %s", i, out)
		}
	}
	id := e.container("kept")
	for _, who := range []map[string]any{root, user} {
		out := e.execute(id, who, "/bin/sh", "-c", strings.Join(tries, "; ")+"; cat plain")
		if len(through(out)) > 0 {
			t.Errorf("the engine executed: %s", out)
		}
		fmt.Printf("@@ the engine's exec: %q\n", strings.TrimSpace(out))
	}
	var made struct{ ID string }
	out := e.call("POST", "/containers/create?name=beside", map[string]any{"Image": "t/base", "Cmd": []string{"/bin/sleep", "100000"},
		"HostConfig": map[string]any{"NetworkMode": "none", "Binds": []string{"/work:/work"}}}, &made)
	if made.ID == "" {
		t.Fatal(out)
	}
	e.call("POST", "/containers/beside/start", nil, nil)
	if out := e.execute("beside", user, "/bin/sh", "-c", strings.Join(tries, "; ")); len(through(out)) != 3 {
		t.Errorf("another container was judged: %s", out)
	}
	e.call("DELETE", "/containers/beside?force=1", nil, nil)
	// What was in the group stays judged where it is moved.
	procs, err := os.ReadFile("/sys/fs/cgroup/docker/" + id + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(procs)) {
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.procs", []byte(pid), 0); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, "moved to another group", s.do(ways))
}

func reloadsContainers(t *testing.T, _ *host) {
	noTools, rest, _ := strings.Cut(statements, "\n")
	set(t, noTools)
	s := open(t, "--name", "live")
	const tries = "tools/busybox echo tool ran; cat secret; /image/tools/busybox echo image ran; cat plain"
	for _, step := range []struct {
		text string
		want []string
	}{
		{noTools, []string{"secret text", "image ran"}},
		{noTools + rest, []string{"image ran"}},
		{rest + inImage, []string{"tool ran"}},
		{noTools, []string{"secret text", "image ran"}},
	} {
		said := set(t, step.text)
		if got := through(s.do(tries)); !slices.Equal(got, step.want) {
			t.Errorf("under\n%s\n%q went through, want %q; the reload said %s", step.text, got, step.want, said)
		}
	}
	s.end()
}

// What was recorded makes a list, under which the same goes through and nothing else; also for what joins, whose
// input and output are files that no list names.
func listsInContainers(t *testing.T, _ *host) {
	const work = "cat plain; echo more >>notes; tools/busybox echo tool ran"
	run := func(script string, words ...string) (out string, status int) {
		for range 2 { // an emulated engine beside other work may take longer than a start waits
			out, status = cloister(t, append(inContainer(words...), "--", "/bin/sh", "-c", script)...)
			if status != 125 || !strings.Contains(out, "does not answer") {
				break
			}
			fmt.Printf("@@ once more: %s\n", strings.TrimSpace(out))
		}
		return out, status
	}
	learns(t, work, run)
	s := open(t, "--name", "listed", "--policy", "made.cedar")
	if out := s.do(work); !strings.Contains(out, "plain text") || !strings.Contains(out, "tool ran") {
		t.Errorf("enforce, the same:\n%s", out)
	}
	out := s.do("cat secret; cat also; /image/tools/busybox echo image ran; cp tools/busybox /tmp/b; /tmp/b echo copy ran; echo x >new; cat plain")
	refused(t, "enforce, what was not recorded", out)
	if _, err := os.Stat("/work/new"); err == nil {
		t.Errorf("a file was made that no list names")
	}
	input := "read from a file\n"
	if err := os.WriteFile("/work/input", []byte(input), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/bin/busybox", "sh", "-c",
		`cloister exec listed -- /bin/sh -c 'read line; echo "$line"; cat secret' <input >output 2>errors; echo $?; cat output errors`)
	c.Dir = "/work"
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), input) || strings.Contains(string(text), "secret text") {
		t.Errorf("a command that joined by files: %v\n%s", err, text)
	}
	s.end()
	if record := shadows(t, run); strings.Contains(record, "shown empty") {
		t.Errorf("the record of mode shadow:\n%s", record)
	}
}

// A container that the engine starts again has another control group: nothing of a session runs there.
func restartsContainers(t *testing.T, e *host) {
	s := open(t, "--name", "again", "--policy", "policy.cedar")
	id := e.container("again")
	before := groupNumber(t, id)
	out := e.call("POST", "/containers/"+id+"/restart?t=0", nil, nil)
	rest, _ := io.ReadAll(s.lines)
	err := s.cmd.Wait()
	fmt.Printf("@@ started again: group %d, the engine says %q, the session %v: %s\n", before, out, err, s.said.String())
	if err == nil || len(through(string(rest))) > 0 || !strings.Contains(s.said.String(), "ended from outside") {
		t.Errorf("a session whose container was started again: %v\n%s%s", err, rest, s.said.String())
	}
	var state struct{ State struct{ Running bool } }
	if e.call("GET", "/containers/"+id+"/json", nil, &state); state.State.Running {
		t.Error("the container runs on")
	}
}

func groupNumber(t *testing.T, id string) uint64 {
	t.Helper()
	fi, err := os.Stat("/sys/fs/cgroup/docker/" + id)
	if err != nil {
		t.Fatal(err)
	}
	return inode(fi)
}

// A container without its judge is ended, and takes no command meanwhile.
func losesContainers(t *testing.T, e *host) {
	s := open(t, "--name", "lost", "--policy", "policy.cedar")
	id := e.container("lost")
	pins, err := filepath.Glob("/sys/fs/bpf/*/map-sessions")
	if err != nil || len(pins) != 1 {
		t.Fatalf("pins %q, %v", pins, err)
	}
	sessions, err := ebpf.LoadPinnedMap(pins[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close()
	if err := sessions.Delete(groupNumber(t, id)); err != nil {
		t.Fatal(err)
	}
	if out, status := cloister(t, "exec", "lost", "--", "/bin/sh", "-c", ways); status == 0 || len(through(out)) > 0 {
		t.Errorf("a command that joined without the judge: %d\n%s", status, out)
	} else {
		fmt.Printf("@@ joined without the judge: %s\n", strings.TrimSpace(out))
	}
	if err := s.cmd.Wait(); err == nil || !strings.Contains(s.said.String(), "judge of files is gone") {
		t.Errorf("a session that lost its judge went on to its end: %v\n%s", err, s.said.String())
	}
	if _, err := os.Stat("/sys/fs/cgroup/docker/" + id); err == nil {
		t.Error("its control group " + strconv.Quote(id) + " is left")
	}
}
