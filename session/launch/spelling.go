package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
)

// The order of a shim goes as JSON, which replaces what is no UTF-8 in an argument or a path.
// So each of its strings is written as a quoted one of Go's, which keeps every byte.
// encoding/gob would do, and costs every start of this program its initialisation.

// write sends an envelope.
func (e envelope) write(to io.Writer) error {
	e.Order = respelled(e.Order, strconv.QuoteToASCII)
	e.Log = strconv.QuoteToASCII(e.Log)
	return json.NewEncoder(to).Encode(e)
}

// readEnvelope is the way back.
func readEnvelope(from io.Reader) (e envelope, err error) {
	if err := json.NewDecoder(from).Decode(&e); err != nil {
		return e, err
	}
	plain := func(quoted string) string {
		text, bad := strconv.Unquote(quoted)
		if bad != nil && quoted != "" { // omitted where it was empty
			err = fmt.Errorf("%.100q is not as this program writes it", quoted)
		}
		return text
	}
	e.Order, e.Log = respelled(e.Order, plain), plain(e.Log)
	return e, err
}

// respelled is an order with each string in another spelling; the lists are copies.
func respelled(o Order, how func(string) string) Order {
	respell(reflect.ValueOf(&o).Elem(), how)
	return o
}

func respell(v reflect.Value, how func(string) string) {
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		v.SetString(how(v.String()))
	case reflect.Struct:
		for _, field := range v.Fields() {
			respell(field, how)
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		for i := range list.Len() {
			respell(list.Index(i), how)
		}
		v.Set(list)
	}
}
