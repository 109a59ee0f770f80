package client

import (
	"testing"

	"cloister/api"
)

// What a guardian does not say to have recorded is held, so much as there is room for; the rest is
// counted, and the count is sent as soon as there is room.
func TestFiled(t *testing.T) {
	l := &Link{}
	l.filed.acks = true
	for range mostHeld + 7 {
		l.Judged(api.FileEvent{Op: "open"})
	}
	if n := l.Unrecorded(); n != mostHeld+7 {
		t.Fatalf("%d are not recorded", n)
	}
	if more := l.filed.recorded(0); more != nil {
		t.Fatalf("sent without room: %+v", more)
	}
	more := l.filed.recorded(mostHeld - 1)
	if more == nil || more.File.More != 7 || more.File.Op != "several" || more.Filed != mostHeld+1 {
		t.Fatalf("what found no room: %+v", more)
	}
	if n := l.Unrecorded(); n != 2 { // the last one that was held, and the count
		t.Fatalf("%d are left", n)
	}
	if more := l.filed.recorded(more.Filed); more != nil || l.Unrecorded() != 0 {
		t.Fatalf("%+v, %d left", more, l.Unrecorded())
	}
}
