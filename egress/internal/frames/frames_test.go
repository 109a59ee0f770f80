package frames

import "testing"

func TestOrder(t *testing.T) {
	var o Order
	out := o.Behind(nil, []byte("[1]"))
	out = o.Data(out, []byte("ab"), 4) // cd is held back
	out = o.Behind(out, []byte("[2]"))
	if string(out) != "[1]ab" {
		t.Fatalf("before the rest came: %q", out)
	}
	out = o.Data(out, nil, 2) // ef too
	out = o.Behind(out, []byte("[ping]"))
	out = o.Data(out, []byte("cde"), 0)
	if string(out) != "[1]abcd[2]e" {
		t.Fatalf("with a part: %q", out)
	}
	out = o.Data(out, []byte("fgh"), 2)
	out = o.Behind(out, []byte("[3]"))
	if string(out) != "[1]abcd[2]ef[ping]gh[3]" || o.waiting != 0 {
		t.Fatalf("at the end: %q, %d wait", out, o.waiting)
	}
	o.Data(nil, nil, 1)
	for range most/100 + 1 {
		o.Behind(nil, make([]byte, 100))
	}
	if !o.Full() {
		t.Error("what waits has no bound")
	}
}
