package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
	"cloister/sandbox"
)

// closingView is a view of one writable project.
func closingView(t *testing.T) *View {
	t.Helper()
	root, err := realpath.Of(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &View{project: Project{Root: sandbox.HostPath(root)}, Binds: []sandbox.Bind{
		{Source: sandbox.HostPath(root), Target: sandbox.GuestPath(root), Access: sandbox.ReadWrite},
	}}
}

// What a policy closes costs the view as much for each path, however many there are. This
// thread's own time is compared, which others on the machine do not change: six times as many
// take six times as long. Where each was compared with all others it was twenty times.
func TestManyClosedPaths(t *testing.T) {
	const few, times = 3_000, 6
	for name, path := range map[string]string{"at the top": "absent%d", "in folders": "in/folder%d/absent"} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			spent := func(n int) time.Duration {
				best := time.Hour
				for range 2 {
					v := closingView(t)
					var o Options
					for i := range n {
						at := filepath.Join(string(v.project.Root), fmt.Sprintf(path, i))
						o.Closed = append(o.Closed, Closed{Path: at, Rule: "r", Place: "p:1:1"})
					}
					runtime.GC()
					began := threadTime(t)
					err := v.close(o)
					best = min(best, threadTime(t)-began)
					if err != nil || len(v.Stubs) != n {
						t.Fatalf("%d of %d are held, %v", len(v.Stubs), n, err)
					}
				}
				return best
			}
			one, more := spent(few), spent(few*times)
			t.Logf("%d paths: %v, %d paths: %v", few, one, few*times, more)
			if more > 2*times*one {
				t.Errorf("%d times as many paths took %d times as long", times, more/one)
			}
		})
	}
}

// threadTime is the processor's time that this thread has had.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// A refusal names some of the paths that are not closed, and not all of them.
func TestManyPathsThatAreNotClosed(t *testing.T) {
	v := closingView(t)
	var o Options
	for i := range 10_000 {
		o.Closed = append(o.Closed, Closed{Path: fmt.Sprint("/tmp/none", i), Rule: "r", Place: fmt.Sprintf("p:%d:1", i+1)})
	}
	err := v.close(o)
	if err == nil {
		t.Fatal("what nothing closes is closed")
	}
	if text := err.Error(); !strings.Contains(text, "p:1:1") || !strings.Contains(text, "there are more") || len(text) > 3000 {
		t.Errorf("it says %q", text)
	}
}

// A path is covered once, where an earlier statement closes it too, and a folder above it is held
// in its place once.
func TestClosedTwice(t *testing.T) {
	v := closingView(t)
	root := string(v.project.Root)
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	var o Options
	for _, rel := range []string{"a/b/one", "a/b/two"} {
		if err := os.WriteFile(filepath.Join(root, rel), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		o.Closed = append(o.Closed, Closed{Path: filepath.Join(root, rel)})
	}
	o.Closed = append(o.Closed, Closed{Path: filepath.Join(root, "gone")}, Closed{Path: filepath.Join(root, "gone")})
	if err := v.close(o); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range v.Protect {
		rel, _ := filepath.Rel(root, string(p.Target))
		got = append(got, fmt.Sprintf("%s %v", rel, p.Pin))
	}
	if text := strings.Join(got, ", "); text != "a true, a/b true, a/b/one false, a/b/two false, gone false" {
		t.Errorf("covered: %s", text)
	}
}
