package inside_test

import (
	"net"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloister/sandbox/docker/inside"
)

// lines are the two ends of a conversation.
func lines(t *testing.T) (ends [2]inside.Line) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = inside.NewLine(c.(*net.UnixConn))
		t.Cleanup(ends[i].Close)
	}
	return ends
}

// fill gives each string of v bytes that are no text.
func fill(v reflect.Value, name string) {
	switch v.Kind() { //nolint:exhaustive // the others hold no string
	case reflect.String:
		v.SetString("/" + name + "\xff\xc3\"")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), name)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"\xff": "\xfe\xff"}))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	}
}

// Every path, word and variable comes to the containers byte for byte, and every error back.
func TestLineKeepsEveryByte(t *testing.T) {
	ends := lines(t)
	var said inside.Message
	fill(reflect.ValueOf(&said).Elem(), "")
	for i := range 256 {
		said.Command.Argv = append(said.Command.Argv, string([]byte{byte(i)}), string([]byte{byte(i), 0xff, byte(i)}))
	}
	if err := ends[0].Say(said); err != nil {
		t.Fatal(err)
	}
	got, err := ends[1].Hear()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said, got); diff != "" {
		t.Error(diff)
	}
}
