package escape

import (
	"strings"
	"testing"
	"time"
)

// A cloister that hangs is ended while there is time for a report: script/test ends
// a run after twenty minutes, but for one that leaves out layers.
func TestTimeForAReport(t *testing.T) {
	if got := (&World{}).within(500); got > 15*time.Minute {
		t.Errorf("%v for all cases", got)
	}
	off := &World{Extra: map[string]string{"CLOISTER_LAYER_OFF": "net"}}
	if got := off.within(150); got < 25*time.Minute {
		t.Errorf("%v for all cases without a layer", got)
	}
}

// Every way in which a case starts a cloister says what its kind needs, once; what a command inside is given does not.
func TestAcceptedWords(t *testing.T) {
	w := &World{Cloister: "/c", Kind: Enclosure{Machine: "/k"}}
	const word = "--accept residue:microvm-emulated"
	for _, c := range []struct{ words, want string }{
		{"/c run -- true", "/c run " + word + " -- true"},
		{"env A=b /c run -d -- /c run x", "env A=b /c run " + word + " -d -- /c run x"},
		{"/c exec x -- run", "/c exec x -- run"},
	} {
		if got := strings.Join(w.accepted(strings.Fields(c.words)), " "); got != c.want {
			t.Errorf("%s: %s", c.words, got)
		}
	}
	if got := w.accepted([]string{"sh", "-c", "cd x; /c run -- true; /c list"})[2]; got != "cd x; /c run "+word+" -- true; /c list" {
		t.Errorf("in a script: %s", got)
	}
	w.Kind.Machine = ""
	if got := strings.Join(w.accepted([]string{"/c", "run"}), " "); got != "/c run" {
		t.Errorf("elsewhere: %s", got)
	}
}
