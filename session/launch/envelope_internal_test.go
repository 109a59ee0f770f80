package launch

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/internal/exactjson"
)

// An order comes to its shim byte for byte, whatever its fields are.
func TestEnvelopeKeepsEveryByte(t *testing.T) {
	var e envelope
	n := fill(t, reflect.ValueOf(&e).Elem(), "")
	for i := range 256 {
		e.Order.Args = append(e.Order.Args, string([]byte{byte(i), 0xff, byte(i)}))
	}
	e.Order.Args = append(e.Order.Args, "", `"`, `\`, "\u2028", "a\x00b")
	before := e.Order.Args[0]
	text, err := exactjson.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if n < 20 || e.Order.Args[0] != before {
		t.Errorf("%d fields, and the first argument is %q", n, e.Order.Args[0])
	}
	var got envelope
	if err := exactjson.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Error(diff)
	}
}

// fill gives each field a value that is not its zero one, and counts them.
func fill(t *testing.T, v reflect.Value, name string) int {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(name + "\xff\xc3")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1<<40 + 1)
	case reflect.Float64:
		v.SetFloat(0.1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		return fill(t, v.Index(0), name+"0") + fill(t, v.Index(1), name+"1")
	case reflect.Struct:
		n := 0
		for i := range v.NumField() {
			n += fill(t, v.Field(i), v.Type().Field(i).Name)
		}
		return n
	default:
		t.Fatalf("%s is of a kind that this test does not fill: %s", name, v.Kind())
	}
	return 1
}
