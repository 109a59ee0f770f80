package escape

import (
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
