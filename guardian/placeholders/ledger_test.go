package placeholders

import (
	"testing"

	"cloister/secret"
	"cloister/secret/inject"
)

func TestLedger(t *testing.T) {
	dir := t.TempDir()
	open := func() *Ledger {
		l, err := OpenLedger(dir)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	value := func(text string) secret.Value {
		v, err := secret.New(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	made := func(l *Ledger, project, name, text string) (secret.Placeholder, []secret.Placeholder) {
		p, earlier, err := l.make(project, name, "", value(text), false)
		if err != nil {
			t.Fatal(err)
		}
		return p, earlier
	}
	l := open()
	first, _ := made(l, "/p", "TOKEN", "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaAA")
	again, _ := made(open(), "/p", "TOKEN", "ghp_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbBB")
	if first != again {
		t.Errorf("another session has another placeholder: %v, %v", first, again)
	}
	for _, other := range [][2]string{{"/q", "TOKEN"}, {"/p", "TOKEN2"}} {
		if p, _ := made(open(), other[0], other[1], "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaAA"); p.Core == first.Core {
			t.Errorf("%v has the placeholder of another", other)
		}
	}
	l = open()
	now, earlier := made(l, "/p", "TOKEN", "sk-ant-api03-cccccccccccccccccccccccccccc")
	if len(earlier) != 1 || earlier[0] != first || now == first {
		t.Errorf("a value of another shape: %v, earlier %v", now, earlier)
	}
	foreign := open().Foreign("/p", []inject.Held{{Name: "TOKEN", Placeholder: now, Earlier: earlier}})
	if len(foreign) != 2 {
		t.Fatalf("foreign: %+v", foreign)
	}
	for _, f := range foreign {
		if (f.Name == "TOKEN") != (f.Project == "/q") {
			t.Errorf("%+v", f)
		}
	}
}
