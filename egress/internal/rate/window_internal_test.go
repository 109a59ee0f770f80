package rate

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	w := Of(time.Second)
	if w.Next(0) != 0 {
		t.Error("an empty one has something to forget")
	}
	for i := range 1000 {
		w.Add(time.Duration(i)*100*time.Millisecond, 2)
	}
	end := 99900 * time.Millisecond
	if n := w.Sum(end); n != 60*10*2 || len(w.held) != slots {
		t.Errorf("%d in %d slots", n, len(w.held))
	}
	if d := w.Next(end); d != time.Second {
		t.Errorf("the oldest is forgotten after %v", d)
	}
	if n := w.Sum(end + time.Hour); n != 0 {
		t.Errorf("%d an hour later", n)
	}
}
